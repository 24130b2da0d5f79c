import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import installSlurm, { missingSlurm } from "../../scripts/slurm.ts";
import { pause, runSluice, startSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { expectWhole as expectWholeRun, submissionsOf } from "../scheduled-job.ts";
import { SlurmCluster, writeSlurmJob } from "../slurm-cluster.ts";

installSlurm();
const missing = missingSlurm();
let cluster: SlurmCluster;

afterEach(() => cluster?.stop());

/** A run on a cluster of its own, which began and has some answers. */
async function begun(rows: number, slurm: string, lines: readonly string[] = []) {
  cluster = await SlurmCluster.start({ lines });
  const folder = scratchFolder();
  writeSlurmJob(folder, rows, slurm);
  const call = (...parameters: string[]) => runSluice(parameters, folder, cluster.environment);
  const status = async () =>
    JSON.parse((await call("status", "out", "--json", "--workers")).stdout || "{}");
  const running = startSluice(["run", "job.yaml"], folder, cluster.environment);
  const answered = async () => {
    const { rows } = await status();
    return (rows?.answered ?? 0) + (rows?.journaled ?? 0);
  };
  await cluster.until(async () => (await answered()) >= 10);
  const events = () => readFileSync(join(folder, "out/_sluice/events/000001.jsonl"), "utf8");
  return { folder, call, status, running, answered, events };
}

type Begun = Awaited<ReturnType<typeof begun>>;

async function expectWhole({ call, running }: Begun, rows: number) {
  const ended = await running.ended;
  expect(ended, ended.stderr).toMatchObject({ code: 0 });
  const { stdout } = await call("results", "out");
  expect(stdout.trimEnd().split("\n")).toHaveLength(rows);
  expect(await call("verify", "out")).toMatchObject({ code: 0 });
  return ended;
}

/** Waits until a task of the array has this state, and says how long that took. */
async function seconds(what: string, holds: () => boolean | Promise<boolean>, limitMs = 240_000) {
  const startMs = performance.now();
  await cluster.until(holds, limitMs);
  const took = (performance.now() - startMs) / 1000;
  console.log(`${what}: ${took.toFixed(1)} s`);
  return took;
}

const stateOf = (share: number) =>
  cluster
    .command("squeue", "-h", "--array", "--states=all", "-o", "%K %T")
    .match(new RegExp(`^${share} (\\w+)`, "m"))?.[1];

/** The worker that a scheduler started, of its process for the work. */
const parentOf = (pid: number) =>
  Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]);

/** Slurm starts a task again after two minutes; an administrator's command does it now. */
async function startNow(share: number): Promise<void> {
  // Right after its end, a node still refuses the task.
  await pause(3000);
  cluster.command("scontrol", "update", `jobid=1_${share}`, "starttime=now");
}

describe("what is lost on a cluster", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  it("a controller that is gone is waited for, and nothing is submitted again", async () => {
    cluster = await SlurmCluster.start();
    // Nothing starts on these nodes: no worker is heard while the controller is gone.
    cluster.command("scontrol", "update", "nodename=n1,n2", "state=drain", "reason=test");
    const folder = scratchFolder();
    writeSlurmJob(folder, 40, "slurm: { shared: true }");
    const { environment } = cluster;
    const running = startSluice(["run", "job.yaml"], folder, environment);
    await cluster.until(() => running.stderr().includes("submitted as slurm"));
    await cluster.stopController();
    await cluster.until(() => running.stderr().includes("slurm does not answer: "));
    cluster.startController();
    await cluster.until(() => {
      try {
        cluster.command("scontrol", "update", "nodename=n1,n2", "state=resume");
      } catch {
        // It is not there yet, or its nodes take work already.
      }
      return cluster.states().some((state) => /^(idle|mixed|allocated)$/.test(state));
    });
    const ended = await running.ended;
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    expect(submissionsOf(join(folder, "out"))).toHaveLength(1);
    await expectWholeRun(join(folder, "out"), 40);
  });

  it("a requeued task goes on with what it has", async () => {
    const run = await begun(300, "slurm: { shared: true }");
    cluster.command("scontrol", "requeue", "1_1");
    await seconds("requeue: share 1 waits", () => stateOf(1) === "PENDING");
    await startNow(1);
    await seconds("requeue: share 1 runs again", () => stateOf(1) === "RUNNING");
    await expectWhole(run, 300);
    expect((await run.status()).workerList).toHaveLength(3);
  });

  it("a worker at its time limit writes what it has; RequeueExit brings it back", async () => {
    const slurm = "slurm: { shared: true, timeLimit: 1 }";
    const run = await begun(1600, slurm, ["RequeueExit=75"]);
    await seconds("time limit: warned, stopped and requeued", () => stateOf(1) === "PENDING");
    await startNow(1);
    await seconds("time limit: runs again", () => stateOf(1) === "RUNNING");
    const before = await run.answered();
    await cluster.until(async () => (await run.answered()) > before);
    run.running.kill("SIGTERM");
    const ended = await run.running.ended;
    expect(ended.code).toBe(143);
    await seconds(
      "canceled by SIGTERM: no task left",
      () => !cluster.command("squeue", "-h").trim(),
    );
  });

  it("without RequeueExit, the next call submits the rest", async () => {
    const run = await begun(1200, "slurm: { shared: true, timeLimit: 1 }");
    const ended = await run.running.ended;
    expect(ended, ended.stderr).toMatchObject({ code: 75 });
    expect(ended.stderr).toMatch(/error WORKERS_GONE: .*1_[01] exit code 75/);
    const before = await run.answered();
    console.log(`time limit: ${before} of 1200 rows in the first call`);
    const again = startSluice(["run", "job.yaml"], run.folder, cluster.environment);
    await cluster.until(async () => (await run.answered()) > before);
    again.kill("SIGTERM");
    expect((await again.ended).code).toBe(143);
    expect(await run.status()).toMatchObject({ state: "canceled" });
  });

  it("the process of a worker that is killed is started again beside it", async () => {
    const run = await begun(200, "slurm: { shared: true }");
    const workers = async () => (await run.status()).workerList as { pid: number; state: string }[];
    process.kill((await workers())[1]!.pid, "SIGKILL");
    await seconds("killed child: another is there", async () => (await workers()).length === 3);
    await expectWhole(run, 200);
  });

  it("a killed worker is told with its end, and the next call does its rest", async () => {
    const run = await begun(200, "slurm: { shared: true }");
    const { pid } = (await run.status()).workerList[1];
    process.kill(parentOf(pid), "SIGKILL");
    await seconds("killed worker: told", () =>
      /slurm 1_\d on n\d failed/.test(run.running.stderr()),
    );
    const ended = await run.running.ended;
    if (ended.code !== 0) {
      expect(ended.stderr).toContain("error WORKERS_GONE");
      const again = await run.call("run", "job.yaml");
      expect(again, again.stderr).toMatchObject({ code: 0 });
      console.log(`killed worker: ${/\d+ workers? submitted/.exec(again.stderr)?.[0]} again`);
    }
    expect(await run.call("verify", "out")).toMatchObject({ code: 0 });
  });

  it("a call attaches to what is left, which does all of the rest", async () => {
    const run = await begun(200, "slurm: { shared: true }");
    run.running.killGroup("SIGKILL");
    const { pid } = (await run.status()).workerList[1];
    process.kill(parentOf(pid), "SIGKILL");
    await cluster.until(() => stateOf(0) === "FAILED" || stateOf(1) === "FAILED");
    const second = await run.call("run", "job.yaml");
    expect(second, second.stderr).toMatchObject({ code: 0 });
    expect(second.stderr).toContain("1 worker is there already, as slurm 1: nothing is submitted");
    expect(second.stderr).not.toContain("submitted as slurm");
    expect(await run.call("verify", "out")).toMatchObject({ code: 0 });
  });

  it("too many failed rows end the run as on one machine", async () => {
    const failing = "maxFailedRows: 0\nslurm: { shared: true }";
    const run = await begun(100, failing);
    const flags = ["--output", "other", "--set", "model.failures=[{row: 3, kind: refused}]"];
    const { code, stderr } = await run.call("run", "job.yaml", ...flags);
    expect(code, stderr).toBe(1);
    expect(stderr).toContain("error TOO_MANY_FAILED_ROWS");
    await expectWhole(run, 100);
  });

  it("a lost node costs its open rows, and Slurm starts its task elsewhere", async () => {
    // Each worker has a node of its own.
    const run = await begun(400, "slurm: { shared: true, extra: [--exclusive] }");
    const [node] = cluster.command("squeue", "-h", "--array", "-o", "%K %N").match(/(?<=^1 )n\d/m)!;
    cluster.killNode(node);
    await seconds("lost node: Slurm requeues its task", () => stateOf(1) === "PENDING");
    await startNow(1);
    await seconds("lost node: its task runs elsewhere", () => stateOf(1) === "RUNNING");
    await expectWhole(run, 400);
  });
});
