import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  afterAll,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  onTestFinished,
  type TestContext,
} from "vitest";
import { runSluice, type SluiceProcess, startSluice } from "../chaos/sluice-process.ts";
import { callHere } from "../cli/call.ts";
import { backendConformance } from "../conformance/backend-conformance.ts";
import { root } from "../meta/source-tree.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { missingS3Server, S3Server } from "../s3-server.ts";
import { expectWhole, slowed, submissionsOf } from "../scheduled-job.ts";
import { sluiceProgram } from "../sluice-program.ts";
import { missingCluster, SlurmCluster, writeSlurmJob } from "../slurm-cluster.ts";
import { interrupt, missingTerminals, startOnTerminal } from "../terminal-process.ts";

let cluster: SlurmCluster;

beforeAll(async () => {
  // A node that is another machine, so that a disk of this one is not what all nodes see.
  const lines = ["NodeName=far NodeHostname=elsewhere NodeAddr=127.0.0.1 Port=9 State=DOWN"];
  if (missingCluster === undefined) cluster = await SlurmCluster.start({ lines });
});
afterAll(() => cluster?.stop());

const shared = "slurm: { timeLimit: 10, shared: true }";

/** What a person does in a folder of their own on the login node. */
function login(rows: number, more = shared) {
  const folder = scratchFolder();
  // Workers that are about to end need their folder, and the next test their room.
  onTestFinished(() => cluster.until(() => cluster.command("squeue", "--noheader") === ""));
  writeSlurmJob(folder, rows, more);
  const call = (...parameters: string[]) => runSluice(parameters, folder, cluster.environment);
  return {
    folder,
    call,
    start: (...parameters: string[]) => startSluice(parameters, folder, cluster.environment),
    status: async () =>
      JSON.parse((await call("status", "out", "--json", "--workers", "--tasks")).stdout),
    submissions: () => submissionsOf(join(folder, "out")),
    /** Every row stands once in the results, and the run is proven. */
    expectWhole: () => expectWhole(join(folder, "out"), rows),
  };
}

/** A path to programs of a release whose squeue knows no JSON. */
function pathWithoutJson(folder: string): string {
  mkdirSync(join(folder, "bin"));
  writeFileSync(join(folder, "bin/squeue"), "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  return `${join(folder, "bin")}:${process.env.PATH}`;
}

/** A call finds the workers of another one, and ends well once their rows may pass. */
async function expectJoined(running: SluiceProcess, pass: () => void) {
  const found = "2 workers are there already, as slurm";
  await cluster.until(() => running.stderr().includes(found) || running.hasEnded());
  pass();
  const ended = await running.ended;
  expect(ended, ended.stderr).toMatchObject({ code: 0, stderr: expect.stringContaining(found) });
}

const summaryOf = ({ stdout }: { stdout: string }) =>
  JSON.parse(stdout.trimEnd().split("\n").at(-1)!);

const skipWithoutCluster = (context: TestContext) =>
  context.skip(missingCluster !== undefined, missingCluster);

backendConformance("slurm", {
  beforeEach: skipWithoutCluster,
  person(rows) {
    const { folder } = login(rows);
    const { environment } = cluster;
    return { folder, environment, out: "out", stored: join(folder, "out") };
  },
});

describe("backend slurm", () => {
  beforeEach(skipWithoutCluster);

  it("runs a job as an array: each row once, and all that tell of it agree", async () => {
    const { folder, call, status, submissions, expectWhole } = login(40);
    const rendered = await call("render", "job.yaml");
    expect(rendered).toMatchObject({ code: 0 });
    const ended = await call("run", "job.yaml");
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    const [submission, ...more] = submissions();
    expect(more).toEqual([]);
    expect(submission).toMatchObject({ scheduler: "slurm", takers: 2, shares: "0-1" });
    expect(submission.sent).toBe(rendered.stdout);
    expect(ended.stderr).toContain(`2 workers submitted as slurm ${submission.id}`);
    expect(ended.stderr).toMatch(/40\/40 rows, 8\/8 tasks/);
    const summary = summaryOf(ended);
    expect(summary).toMatchObject({ status: "SUCCESS", sealed: true });
    const rows = { total: 40, answered: 40, failed: 0 };
    expect(summary.rows).toMatchObject({ ...rows, resumed: 0 });
    const manifest = JSON.parse(readFileSync(join(folder, "out/_manifest.json"), "utf8"));
    expect(manifest.rows).toMatchObject(rows);
    expect(manifest.usage.completionTokens).toBe(summary.total_tokens_generated);
    // Every token was generated while this call looked on.
    expect(summary.tokens_per_sec * summary.run_time_sec).toBeCloseTo(
      summary.total_tokens_generated,
      0,
    );
    const told = await status();
    expect(told).toMatchObject({ state: "successful", rows });
    const places = told.workerList.map(({ scheduler }: { scheduler: string }) => scheduler).sort();
    expect(places).toEqual([
      expect.stringMatching(`^slurm ${submission.id}_0 on n[12]$`),
      expect.stringMatching(`^slurm ${submission.id}_1 on n[12]$`),
    ]);
    await expectWhole();
    // The finished run is not submitted again.
    expect((await call("run", "job.yaml")).stderr).toContain("nothing to do");
    expect(submissions()).toHaveLength(1);
  });

  it("goes on after --detach, shows itself to attach, and seals itself", async () => {
    const { folder, call, start, status, submissions, expectWhole } = login(160);
    const pass = slowed(folder);
    const left = await call("run", "job.yaml", "--detach");
    expect(left, left.stderr).toMatchObject({ code: 0 });
    const [{ id }] = submissions();
    expect(summaryOf(left)).toMatchObject({ scheduler: "slurm", submission: id });
    for (const command of ["attach", "status", "cancel"]) {
      expect(left.stderr).toContain(`sluice ${command} out`);
    }
    expect(["pending", "running"]).toContain((await status()).state);
    // Another call finds the workers, and submits none.
    const attaching = start("attach", "out");
    const hasFound = () => attaching.stderr().includes("160 rows in 32 tasks");
    await cluster.until(() => hasFound() || attaching.hasEnded());
    pass();
    const attached = await attaching.ended;
    expect(attached, attached.stderr).toMatchObject({ code: 0 });
    expect(attached.stderr).toMatch(/160\/160 rows, 32\/32 tasks/);
    expect(summaryOf(attached)).toMatchObject({
      status: "SUCCESS",
      rows: { total: 160, answered: 160, failed: 0 },
    });
    expect(submissions()).toHaveLength(1);
    const logs = await call("logs", "out", "--share", "1");
    expect(logs.stdout).toMatch(/slurm-\d+-1\.log <==\nrun .* 16 tasks/);
    expect(logs.stdout).not.toMatch(/slurm-\d+-0\.log/);
    await expectWhole();
  });

  it("leaves its workers where a coordinator dies; the same command attaches", async () => {
    const { folder, call, start, submissions, expectWhole } = login(240);
    const pass = slowed(folder);
    const first = start("run", "job.yaml");
    await cluster.until(() => first.stderr().includes("submitted as slurm"));
    // While it lives, a second call neither leads nor submits.
    expect(await call("run", "job.yaml")).toMatchObject({ code: 75 });
    first.killGroup("SIGKILL");
    await expectJoined(start("run", "job.yaml"), pass);
    expect(submissions()).toHaveLength(1);
    await expectWhole();
  });

  it("is joined by an array of one's own and by shells, which come and go", async () => {
    const { folder, call, start, status, expectWhole } = login(480);
    const pass = slowed(folder);
    expect(await call("plan", "job.yaml", "--write")).toMatchObject({ code: 0 });
    // The script of the document, for fewer workers.
    const document = readFileSync(join(root, "docs/worker-contract.md"), "utf8");
    const [, script = ""] = /^```sh\n(#!\/bin\/sh\n#SBATCH[\s\S]*?)^```/m.exec(document)!;
    const own = script
      .replace("0-15", "0-1")
      .replace("/16", "/2")
      .replace("sluice worker RUN", `"${process.execPath}" "${sluiceProgram}" worker out`);
    writeFileSync(join(folder, "array.sh"), own);
    cluster.command("sbatch", "-D", folder, "-o", "/dev/null", join(folder, "array.sh"));
    const workers = async () => (await status()).workerList.length;
    await cluster.until(async () => (await workers()) === 2);
    const leaving = start("worker", "out");
    await cluster.until(async () => (await workers()) === 3);
    leaving.kill("SIGTERM");
    const shell = start("worker", "out", "--share", "5/6");
    expect((await leaving.ended).code).toBe(75);
    await cluster.until(async () => (await workers()) === 4);
    pass();
    await cluster.until(async () => (await status()).state === "successful");
    expect((await shell.ended).code).toBe(0);
    const { workerList } = await status();
    const places = workerList.map((it: { scheduler?: string }) => it.scheduler?.split(" ")[0]);
    expect(places.toSorted()).toEqual(["slurm", "slurm", undefined, undefined]);
    await expectWhole();
  });

  it("finds workers whose submission was not recorded, also without JSON", async () => {
    const { folder, start, expectWhole } = login(240);
    const pass = slowed(folder);
    const first = start("run", "job.yaml");
    await cluster.until(() => first.stderr().includes("submitted as slurm"));
    first.killGroup("SIGKILL");
    rmSync(join(folder, "out/_sluice/submissions"), { recursive: true });
    const environment = { ...cluster.environment, PATH: pathWithoutJson(folder) };
    await expectJoined(startSluice(["run", "job.yaml"], folder, environment), pass);
    await expectWhole();
  });

  it("works on a run in an object store, and retries its failed rows", async ({ skip }) => {
    skip(missingS3Server !== undefined, missingS3Server);
    const server = await S3Server.start();
    try {
      const folder = scratchFolder();
      writeSlurmJob(folder, 20, shared);
      const environment = { ...cluster.environment, ...server.environment };
      const call = (...parameters: string[]) => runSluice(parameters, folder, environment);
      const out = server.location("out");
      const failing = "model.failures=[{row: 7, kind: refused}]";
      const first = await call("run", "job.yaml", "--output", out, "--set", failing);
      expect(first, first.stderr).toMatchObject({ code: 1 });
      expect(summaryOf(first).rows).toMatchObject({ answered: 19, failed: 1 });
      const retried = await call("retry", out, "--set", "model.failures=[]");
      expect(retried, retried.stderr).toMatchObject({ code: 0 });
      expect(retried.stderr).toContain("1 worker submitted as slurm");
      expect(await call("verify", out)).toMatchObject({ code: 0 });
      // Logs are files: without a folder of the run, they lie where it was called.
      const logs = readdirSync(folder).filter((name) => /^sluice-slurm-\d+-\d\.log$/.test(name));
      expect(logs).toHaveLength(3);
      expect((await call("logs", out, "--share", "1")).stdout).toContain("2 tasks");
    } finally {
      await server.stop();
    }
  });

  it("asks at Ctrl-C on a terminal whether the workers stop too", async ({ skip }) => {
    skip(missingTerminals !== undefined, missingTerminals);
    const { folder, call, submissions, expectWhole } = login(200);
    const pass = slowed(folder);
    const terminal = (...parameters: string[]) =>
      startOnTerminal(parameters, folder, { ...process.env, ...cluster.environment });
    // No: they go on without this process.
    const first = terminal("run", "job.yaml");
    await cluster.until(() => /\b[1-9]\d?\/200/.test(first.said()));
    first.type(interrupt);
    await cluster.until(() => first.said().includes("stop the workers at slurm as well?"));
    first.type("n\n");
    const left = await first.ended;
    expect(left.code).toBe(130);
    expect(left.said).toContain("sluice attach out");
    // To attach, a second Ctrl-C says yes.
    const second = terminal("attach", "out");
    await cluster.until(() => /\b[1-9]\d?\/200/.test(second.said()));
    second.type(interrupt);
    await cluster.until(() => second.said().includes("stop the run as well?"));
    second.type(interrupt);
    const stopped = await second.ended;
    expect(stopped.said).toContain("stopped, all answers are kept");
    expect(cluster.command("squeue", "-h", "-j", submissions()[0].id)).toBe("");
    pass();
    expect(await call("run", "job.yaml")).toMatchObject({ code: 0 });
    await expectWhole();
  });

  it("says which worker failed and how, and where its log is", async () => {
    const { call, status } = login(10, "slurm: { command: [/bin/false], shared: true }");
    const ended = await call("run", "job.yaml");
    expect(ended).toMatchObject({ code: 75 });
    expect(ended.stderr).toMatch(/slurm \d+_0 on n[12] ended with exit code 1 .*--share 0/);
    expect(ended.stderr).toContain("error WORKERS_GONE");
    expect(summaryOf(ended)).toMatchObject({ stopped_by: { code: "WORKERS_GONE" } });
    expect(await status()).toMatchObject({ state: "failed" });
  });

  it("refuses by name what cannot work, before anything is planned", async () => {
    const { folder } = login(10, "");
    const refused = async (...parameters: string[]) => {
      const { code, stderr } = await callHere(parameters, folder, cluster.environment);
      expect(readdirSync(folder)).not.toContain("out");
      return [code, stderr];
    };
    expect(await refused("run", "job.yaml")).toEqual([
      64,
      expect.stringMatching(/DIRECTORY_NOT_SHARED.*output.path[\s\S]*slurm.shared: true/),
    ]);
    expect(await refused("run", "job.yaml", "--backend", "local", "--detach")).toEqual([
      64,
      expect.stringContaining("--detach with backend: local"),
    ]);
    const lacking = { ...cluster.environment, PATH: "/nowhere" };
    const without = await callHere(["run", "job.yaml"], folder, lacking);
    expect(without).toMatchObject({ code: 69 });
    expect(without.stderr).toContain("SCHEDULER_MISSING");
    expect(without.stderr).toContain("apt-get install slurm-client");
  });

  it("books GPUs, caps the array at what the cluster takes, and does without JSON", async () => {
    const small = await SlurmCluster.start({ lines: ["MaxArraySize=2"] });
    try {
      const folder = scratchFolder();
      writeSlurmJob(folder, 40);
      const flags = ["--workers.max=5", "--workers.gpu=2"];
      const environment = { ...small.environment, PATH: pathWithoutJson(folder) };
      const ended = await runSluice(["run", "job.yaml", ...flags], folder, environment);
      expect(ended, ended.stderr).toMatchObject({ code: 0 });
      expect(ended.stderr).toContain("slurm takes at most 2 workers at once here, not 5");
      const jobs = small.command("scontrol", "--oneliner", "show", "job").trim().split("\n");
      expect(jobs.map((job) => /TresPerNode=(\S+)/.exec(job)?.[1])).toEqual([
        "gres:gpu:2",
        "gres:gpu:2",
      ]);
      // Each node has two GPUs: two such workers are never on one.
      const nodes = jobs.map((job) => / NodeList=(\S+)/.exec(job)?.[1]);
      expect(new Set(nodes).size).toBe(2);
    } finally {
      await small.stop();
    }
  });

  it("passes on why Slurm refuses a job", async () => {
    const { call } = login(10, "slurm: { shared: true, partition: nowhere }");
    const ended = await call("run", "job.yaml");
    expect(ended).toMatchObject({ code: 69 });
    expect(ended.stderr).toMatch(/SCHEDULER_REFUSED.*sbatch: .*[Ii]nvalid partition/);
  });
});
