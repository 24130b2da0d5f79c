import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { runSluice, startSluice } from "../chaos/sluice-process.ts";
import { callHere } from "../cli/call.ts";
import {
  type Cloud,
  clients,
  cloudClient,
  cloudOrAll,
  clouds,
  skipWithoutClouds,
} from "../cloud-client.ts";
import { backendConformance } from "../conformance/backend-conformance.ts";
import { isLong } from "../long.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { bucket, missingS3Server, S3Server } from "../s3-server.ts";
import { answeredIn, expectWhole, submissionsOf } from "../scheduled-job.ts";
import { sluiceProgram } from "../sluice-program.ts";

let server: S3Server;

beforeAll(async () => {
  if (missingS3Server !== undefined) return;
  server = await S3Server.start();
  for (const [name, value] of Object.entries(server.environment)) vi.stubEnv(name, value);
});
afterAll(() => {
  vi.unstubAllEnvs();
  server?.stop();
});

/** Keys of a job whose machines start Sluice in this way. */
function keysOf(cloud: Cloud, command: readonly string[]): string {
  const start = JSON.stringify(command);
  return cloud === "sky"
    ? `sky: { software: installed, command: ${start} }`
    : `codeEngine: { image: i, stateStore: s, subnetPool: p, command: ${start} }`;
}

/**
 * A person whose cloud is this machine: its client starts real workers here.
 *
 * @param latencyMs time of a row: many rows that take little compute more than few that take long.
 */
function person(
  cloud: Cloud,
  rows: number,
  { latencyMs = 100, command = [process.execPath, sluiceProgram] } = {},
) {
  const folder = scratchFolder();
  const name = `${cloud}-${folder.split(/[/-]/).at(-1)}`;
  const out = server.location(name);
  const lines = Array.from({ length: rows }, (_, row) => `{"id":"r${row}","text":"row ${row}"}\n`);
  writeFileSync(join(server.directory, bucket, `${name}.jsonl`), lines.join(""));
  const machines = cloudClient(folder, cloud);
  const job = `input: { path: "${server.location(`${name}.jsonl`)}", id: id }
shard: { rows: 5 }
model: { engine: fake, latencyMs: ${latencyMs}, capacity: 1 }
prompt: "Say {{ text }}"
output: { path: "${out}" }
backend: ${cloud}
workers: { max: 2 }
${keysOf(cloud, command)}
`;
  writeFileSync(join(folder, "job.yaml"), job);
  const environment = { ...server.environment, ...machines.environment };
  const call = (...parameters: string[]) => runSluice(parameters, folder, environment);
  const status = async () =>
    JSON.parse((await call("status", out, "--json", "--workers")).stdout || "{}");
  const stored = join(server.directory, bucket, name);
  return {
    ...machines,
    ...{ folder, out, stored, call, status, environment },
    /** For what starts nothing, in this process. */
    callHere: (...parameters: string[]) => callHere(parameters, folder, environment),
    start: (...parameters: string[]) => startSluice(parameters, folder, environment),
    manifest: () => JSON.parse(readFileSync(join(stored, "_manifest.json"), "utf8")),
    submissions: () => submissionsOf(stored),
    /** Read from the files of the store: a look by requests takes ten times as long. */
    answered: () => answeredIn(stored),
    expectWhole: () => expectWhole(out, rows),
  };
}

const summaryOf = ({ stdout }: { stdout: string }) =>
  JSON.parse(stdout.trimEnd().split("\n").at(-1)!);

const until = async (holds: () => boolean | Promise<boolean>) => {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 250));
};

/** Their workers join as those of Slurm do, on which `npm test` runs the suite. */
for (const cloud of isLong ? clouds : []) {
  backendConformance(cloud, {
    beforeEach: skipWithoutClouds,
    person(rows) {
      const { folder, out, stored, environment } = person(cloud, rows);
      return { folder, out, stored, environment };
    },
  });
}

describe.each(clouds)("backend %s, by a stand-in of its client", (cloud) => {
  beforeEach(skipWithoutClouds);

  it("runs a job: each row once, and all that tell of it agree", async () => {
    const me = person(cloud, 20);
    const { call, out, status, records, manifest, submissions, expectWhole } = me;
    const rendered = await me.callHere("render", "job.yaml");
    expect(rendered, rendered.stderr).toMatchObject({ code: 0 });
    const ended = await call("run", "job.yaml");
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    const rows = { total: 20, answered: 20, failed: 0 };
    const summary = summaryOf(ended);
    expect(summary).toMatchObject({ status: "SUCCESS", sealed: true, rows });
    const { rows: sealed, usage } = manifest();
    expect(sealed).toMatchObject(rows);
    expect(usage.completionTokens).toBe(summary.total_tokens_generated);
    const { name } = records()[0]!;
    expect(ended.stderr).toContain(`2 workers submitted as ${cloud} ${name}`);
    expect(ended.stderr).toMatch(/20\/20 rows, 4\/4 tasks/);
    const told = await status();
    expect(told).toMatchObject({ state: "successful", rows });
    expect(submissions()).toMatchObject([{ scheduler: cloud, id: name, sent: rendered.stdout }]);
    const places = told.workerList.map((it: { scheduler: string }) => it.scheduler).sort();
    const ids = cloud === "sky" ? ["1", "2"] : [`${name} 0`, `${name} 1`];
    expect(places).toEqual(ids.map((id) => `${cloud} ${id}`));
    const logs = await call("logs", out, "--share", "1");
    if (cloud === "sky") {
      expect(logs.stdout).toMatch(/^==> job 2 <==\nrun .* tasks/);
    } else {
      expect(logs).toMatchObject({ code: 64 });
      expect(logs.stderr).toContain(`IBM Cloud Logs keeps them: filter by codeengine.component`);
    }
    await expectWhole();
    // The finished run starts no machine.
    expect((await me.callHere("run", "job.yaml")).stderr).toContain("nothing to do");
    expect(records()).toHaveLength(2);
  });

  it("says which worker failed and how", async () => {
    const { call, status } = person(cloud, 10, { command: ["/bin/false"] });
    const ended = await call(
      "run",
      "job.yaml",
      "--set",
      `${cloud === "sky" ? "sky" : "codeEngine"}.retries=0`,
    );
    expect(ended).toMatchObject({ code: 75 });
    const how =
      cloud === "sky"
        ? "sky 1 failed \\(FAILED\\)"
        : "code-engine \\S+ 0 on \\S+ ended with exit code 1";
    expect(ended.stderr).toMatch(new RegExp(`${how}: sluice logs`));
    expect(ended.stderr).toContain("error WORKERS_GONE");
    expect(await status()).toMatchObject({ state: "failed" });
  });

  it("refuses what cannot work before anything is planned", async () => {
    const { callHere: refusing, folder, environment, records } = person(cloud, 10);
    const refused = await refusing("run", "job.yaml", "--output", join(folder, "out"));
    expect(refused).toMatchObject({ code: 64 });
    expect(refused.stderr).toMatch(
      new RegExp(
        `DIRECTORY_NOT_SHARED.*workers of backend ${cloud} do not see it[\\s\\S]*output.path`,
      ),
    );
    expect(readdirSync(folder)).not.toContain("out");
    const without = { ...environment, PATH: "/nowhere" };
    const missing = await callHere(["run", "job.yaml"], folder, without);
    expect(missing).toMatchObject({ code: 69 });
    expect(missing.stderr).toContain(`SCHEDULER_MISSING`);
    expect(missing.stderr).toContain(`${clients[cloud]} is not on PATH`);
    expect(records()).toEqual([]);
  });
});

describe("a backend of a cloud", () => {
  beforeEach(skipWithoutClouds);

  it.each(cloudOrAll("code-engine"))(
    "goes on after --detach, shows itself to attach, and seals itself: %s",
    async (cloud) => {
      const { call, out, records, status, expectWhole } = person(cloud, 30, { latencyMs: 400 });
      const left = await call("run", "job.yaml", "--detach");
      expect(left, left.stderr).toMatchObject({ code: 0 });
      expect(summaryOf(left)).toMatchObject({ scheduler: cloud, submission: records()[0]!.name });
      expect(["pending", "running"]).toContain((await status()).state);
      const attached = await call("attach", out);
      expect(attached, attached.stderr).toMatchObject({ code: 0 });
      const rows = { total: 30, answered: 30, failed: 0 };
      expect(summaryOf(attached)).toMatchObject({ status: "SUCCESS", rows });
      await expectWhole();
    },
  );

  it.each(cloudOrAll("sky"))(
    "loses no answer where its coordinator is stopped by a signal: %s",
    async (cloud) => {
      const me = person(cloud, 60, { latencyMs: 500 });
      const running = me.start("run", "job.yaml");
      await until(async () => (await me.answered()) >= 3);
      running.killGroup("SIGINT");
      const ended = await running.ended;
      const before = summaryOf(ended);
      expect(before).toMatchObject({ status: "CANCELED", sealed: false });
      expect(await answeredIn(me.out)).toBe(before.rows.answered);
      await until(me.isGone);
      expect(me.lastCodes()).toEqual([75, 75]);
      const again = await me.call("run", "job.yaml", "--set", "model.latencyMs=10");
      expect(again, again.stderr).toMatchObject({ code: 0 });
      expect(summaryOf(again).rows.resumed).toBe(before.rows.answered);
      await me.expectWhole();
    },
  );

  it.each(cloudOrAll("code-engine"))(
    "goes on where a worker and the coordinator are killed: %s",
    async (cloud) => {
      const { start, answered, records, workerPid, lastCodes, isGone, expectWhole } = person(
        cloud,
        30,
        { latencyMs: 400 },
      );
      const first = start("run", "job.yaml");
      await until(async () => (await answered()) >= 3);
      process.kill(-workerPid(1), "SIGKILL");
      first.killGroup("SIGKILL");
      await first.ended;
      const ended = await start("run", "job.yaml").ended;
      expect(ended, ended.stderr).toMatchObject({ code: 0 });
      expect(ended.stderr).toContain(`there already, as ${cloud}`);
      expect(summaryOf(ended).rows).toMatchObject({ total: 30, answered: 30 });
      expect(records()).toHaveLength(2);
      // The cloud has started the killed one again.
      await until(isGone);
      expect(lastCodes()).toEqual([0, 0]);
      await expectWhole();
    },
  );
});
