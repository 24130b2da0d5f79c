import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { findPeer } from "../../bench/peers.ts";
import { parseWorkers, SkyClient } from "../../src/backends/sky/client.ts";
import { skyNameOf } from "../../src/backends/sky/render.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { jobSchema } from "../../src/run/job/schema.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { sluiceProgram } from "../sluice-program.ts";

const peer = findPeer("skypilot");
const missing = peer === undefined ? "no SkyPilot: npm run peers -- sky installs it" : undefined;
const python = join(peer ?? "", "environment/bin/python");

const job = jobSchema.parse({
  input: "s3://bucket/in.jsonl",
  model: { engine: "fake" },
  prompt: "{{ text }}",
  output: { path: "s3://bucket/out" },
  ...{ backend: "sky", workers: { max: 3 } },
});

/** The task of a job, as it would be launched. */
async function rendered(more: string, flags: string[] = [], environment = {}) {
  const folder = scratchFolder();
  const job = `input: s3://bucket/in.jsonl
model: { engine: fake }
prompt: "{{ text }}"
output: { path: s3://bucket/out }
backend: sky
workers: { max: 3 }
${more}
`;
  writeFileSync(join(folder, "job.yaml"), job);
  const { code, stdout, stderr } = await runSluice(
    ["render", "job.yaml", ...flags],
    folder,
    environment,
  );
  expect(code, stderr).toBe(0);
  writeFileSync(join(folder, "task.yaml"), stdout);
  return { folder, text: stdout };
}

/** Output of a program in Python that uses SkyPilot, in a home of its own. */
function ask(folder: string, program: string, ...args: string[]): string {
  const env = { ...process.env, HOME: folder, SKYPILOT_DISABLE_USAGE_COLLECTION: "1" };
  return execFileSync(python, ["-c", program, ...args], { cwd: folder, encoding: "utf8", env });
}

/** What SkyPilot itself makes of a file. */
const loaded = (folder: string) =>
  ask(
    folder,
    "import sky, sys; print(sky.Task.from_yaml(sys.argv[1]).resources)",
    join(folder, "task.yaml"),
  );

describe("what is rendered for SkyPilot", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  it("is read by its own loader: any of six GPUs, on spot machines or others", async () => {
    const { folder } = await rendered(`sky:
  resources:
    accelerators: [L4, L40, A10, A10g, A100, A100-80GB]
    anyOf: [{ useSpot: true }, { useSpot: false }]`);
    const resources = loaded(folder);
    for (const kind of ["L4", "L40", "A10", "A10G", "A100", "A100-80GB"]) {
      expect(resources.toUpperCase()).toContain(`{'${kind}': 1}`);
    }
    expect(resources.match(/\[Spot\]/gi)).toHaveLength(6);
  });

  it("is read with every key, and as a machine to try things on", async () => {
    const keys = `name: night
sky:
  resources: { infra: aws/us-east-1, useSpot: true, imageId: "docker:i:1", diskSizeGb: 100, accelerators: "L4:2" }
  setup: nvidia-smi
  envs: { A: b }
  secrets: [HOME]
  recovery: FAILOVER
  retries: 1`;
    const { folder } = await rendered(keys, ["--workers.cpu=4", "--workers.memory=16G"]);
    expect(loaded(folder)).toContain("{'L4': 2}");
    const dev = await rendered(keys, ["--dev"]);
    expect(loaded(dev.folder)).toContain("{'L4': 2}");
  });

  it("is read as offers in the order of what their tokens cost", async () => {
    const folder = scratchFolder();
    const catalog = join(folder, ".sky/catalogs/v8/aws");
    mkdirSync(catalog, { recursive: true });
    const lines = ["InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region"];
    lines.push("g6.xlarge,L4,1.0,0.8,0.3,us-east-1", "g5.xlarge,A10G,1.0,0.5,0.25,us-east-1");
    writeFileSync(join(catalog, "vms.csv"), `${lines.join("\n")}\n`);
    const keys = `sky:
  resources: { anyOf: [{ useSpot: true }, { useSpot: false, infra: aws }], diskSizeGb: 100 }
  tokensPerSecond: { L4: 2000, A10G: 500 }`;
    const { folder: place, text } = await rendered(keys, [], { HOME: folder });
    expect(text).toContain("#   L4:1 spot: $0.0417 per million tokens, $0.3/h");
    const found = [...loaded(place).matchAll(/\[?(Spot)?\]?\W*\{'(\w+)': 1\}/gi)];
    expect(found.map(([, , kind]) => kind)).toEqual(["L4", "L4", "A10G", "A10G"]);
  });

  it("sets a machine up with Node.js and the package, so that sluice starts", async () => {
    const { folder, text } = await rendered("");
    const { setup, run, file_mounts } = parse(text) as {
      setup: string;
      run: string;
      file_mounts: Record<string, string>;
    };
    const home = join(folder, "home");
    // As SkyPilot copies them.
    for (const [to, from] of Object.entries(file_mounts)) {
      const place = to.replace("~", home);
      mkdirSync(dirname(place), { recursive: true });
      cpSync(from, place, { recursive: true });
    }
    expect(Object.values(file_mounts)[0]).toContain(dirname(dirname(sluiceProgram)));
    const environment = { ...process.env, HOME: home, SKYPILOT_JOB_RANK: "0" };
    execFileSync("/bin/sh", ["-e", "-c", setup], { env: environment, stdio: "inherit" });
    const asked = run.replace(/worker s3.*/, "--version");
    const said = execFileSync("/bin/sh", ["-c", asked], { env: environment, encoding: "utf8" });
    expect(said.trim()).toMatch(/^\d+\.\d+\.\d+$/);
  });
});

describe("the driver of SkyPilot's client", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  it("calls commands that the client has, with flags that it takes", async () => {
    const folder = scratchFolder();
    const location = "s3://bucket/out";
    const name = `${skyNameOf(location)}-1`;
    const client = new SkyClient({ clock: systemClock, environment: recorder(folder, name) });
    const launch = ["sky", "jobs", "launch", "t.yaml", "--num-jobs", "2", "-d", "-y"];
    writeFileSync(join(folder, "t.yaml"), "run: echo");
    await client.submit({
      text: "run: echo",
      file: "t.yaml",
      command: [...launch, "--secret", "HOME"],
    });
    await client.cancel([name]);
    const { signal } = new AbortController();
    const reading = { follow: false, signal, write: async () => {} };
    await client.logs({ location, job, submissions: [] }, reading);
    const calls = readFileSync(join(folder, "calls"), "utf8").trim();
    const verbs = calls.split("\n").map((line) => JSON.parse(line)[1]);
    expect(verbs).toEqual(["launch", "queue", "cancel", "queue", "logs"]);
    // Each is parsed as the client would, and not carried out.
    const program = `import json, sys
from sky.client.cli import command
for line in sys.argv[1].split("\\n"):
    words = json.loads(line)
    called = command.cli
    for word in words[:2]:
        called = called.get_command(None, word)
    called.make_context(words[1], words[2:])
    print(called.name)`;
    expect(ask(folder, program, calls).trim().split("\n")).toEqual(verbs);
  });

  it("reads the client's own list of jobs", () => {
    const program = `import json
from sky.schemas.api import responses
from sky.jobs.state import ManagedJobStatus as S
record = lambda id, name, **more: responses.ManagedJobRecord(job_id=id, job_name=name, **more)
jobs = [record(2, "sluice-aa-b-1", status=S.RUNNING, infra="AWS (us-east-1)"), record(3, None, status=S.FAILED),
  record(1, "sluice-aa-b-1", status=S.FAILED_SETUP, failure_reason="no pip")]
print(json.dumps([job.model_dump(mode="json") for job in jobs]))`;
    const listed = JSON.parse(ask(scratchFolder(), program));
    const submissions = [{ id: "sluice-aa-b-1", shares: "4,6" }];
    expect(parseWorkers(listed, "sluice-aa-", submissions)).toMatchObject([
      { id: "1", share: 4, state: "failed", reason: "FAILED_SETUP: no pip" },
      { id: "2", share: 6, state: "running", node: "AWS (us-east-1)" },
    ]);
  });

  it("finds no worker in an account that never had one, by SkyPilot's own server", async () => {
    const folder = scratchFolder();
    const environment = withSky(folder, `exec '${python}' -m sky.client.cli.command "$@"`);
    const client = new SkyClient({ clock: systemClock, environment });
    try {
      expect(await client.look({ location: "s3://bucket/out", job, submissions: [] })).toEqual([]);
      await client.cancel(["sluice-aa-b-1"]);
    } finally {
      execFileSync(join(folder, "bin/sky"), ["api", "stop"], { env: environment, stdio: "pipe" });
    }
  });
});

/** An environment in which `sky` is a shell's lines. */
function withSky(folder: string, lines: string) {
  const bin = join(folder, "bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "sky"), `#!/bin/sh\n${lines}\n`, { mode: 0o755 });
  const PATH = `${bin}:${process.env.PATH}`;
  return { ...process.env, PATH, HOME: folder, SKYPILOT_DISABLE_USAGE_COLLECTION: "1" };
}

/** A `sky` that writes down how it was called, and knows one job. */
function recorder(folder: string, name: string) {
  const job = JSON.stringify([{ job_id: 1, job_name: name, status: "RUNNING" }]);
  const program =
    "require('fs').appendFileSync(process.argv[1], JSON.stringify(process.argv.slice(2)) + '\\n')";
  const lines = `'${process.execPath}' -e "${program}" '${folder}/calls' "$@"\necho '${job}'`;
  return withSky(folder, lines);
}
