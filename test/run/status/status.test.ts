import { appendFileSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { localStorage as openStorage } from "../../../src/data/storage/local.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { noUsage } from "../../../src/foundation/inference.ts";
import { claimOwnerPath } from "../../../src/run/directory/layout.ts";
import { openOrPlan } from "../../../src/run/plan/open-run.ts";
import { runJob } from "../../../src/run/run-job.ts";
import type { RunEvent } from "../../../src/run/status/events.ts";
import { StatusReader } from "../../../src/run/status/status.ts";
import { nothingPrepared } from "../dispatching.ts";
import {
  carriedOut,
  filesOf,
  folderFor,
  preparedRun,
  processesOf,
  putText,
  retried,
  scratchFolder,
  textOf,
  type WholeRun,
} from "../whole-run.ts";

const readerOf = ({ location }: WholeRun, dead: number[] = []) =>
  new StatusReader(openStorage(location.directory), {
    clock: systemClock,
    processes: processesOf(99, new Set(dead)),
  });

async function sealed(changes = {}): Promise<WholeRun> {
  const run = preparedRun(scratchFolder(), undefined, changes);
  await carriedOut(run);
  return run;
}

/** A run of which tasks 0 and 1 are committed, as its processes left it. */
async function halfDone(hasEnded: boolean, changes = {}): Promise<WholeRun> {
  const run = await sealed(changes);
  const gone =
    /^(_SUCCESS|_manifest|_sluice\/(seals|manifests|commits\/[234])|_sluice\/attempts\/\w+\/g1\/4)/;
  for (const path of filesOf(run)) {
    if (gone.test(path)) rmSync(join(run.location.directory, path));
    else if (path.endsWith(".heartbeat")) putText(run, path, `{"beat":7,"ended":${hasEnded}}\n`);
    else if (path.startsWith("_sluice/workers/") && !hasEnded) {
      putText(run, path, textOf(run, path).replace("successful", "running"));
    }
  }
  return run;
}

const counts = { failed: 0, canceled: 0, successful: 0, running: 0, pending: 0 };

function log(run: WholeRun, event: RunEvent): void {
  const path = join(run.location.directory, "_sluice/events/000001.jsonl");
  appendFileSync(path, `${JSON.stringify(event)}\n`);
}

const endOf = (task: number, more: object): RunEvent => ({
  type: "task-end",
  task,
  worker: "w1",
  outcome: "failed",
  done: 0,
  failed: 0,
  errors: {},
  usage: { promptTokens: 0, cachedTokens: 0, completionTokens: 0 },
  ...more,
});

const noRows = { answered: 0, filtered: 0, failed: 0, journaled: 0 };

describe("StatusReader", () => {
  it("tells a planned run that nobody began", async () => {
    const run = preparedRun(scratchFolder());
    const options = { overwrite: false, fork: false, workersFor: () => 1, onEvent() {} };
    await openOrPlan(run.job, run.dependencies, options);
    const { run: status } = await readerOf(run).read();
    expect(status).toMatchObject({ state: "pending", openTasks: "0-4", sealedAt: null });
    expect(status.tasks).toEqual({ ...counts, pending: 5, total: 5 });
    expect(status.rows).toEqual({ total: 23, ...noRows });
  });

  it("tells a sealed run, by its budget of failures", async () => {
    const { run, tasks, workers } = await readerOf(await sealed()).read({ tasks: true });
    expect(run).toMatchObject({ state: "failed", reason: "sealed, failed rows: 4", openTasks: "" });
    expect(run.tasks).toEqual({ ...counts, successful: 5, total: 5 });
    expect(run.rows).toEqual({ total: 23, ...noRows, answered: 19, failed: 4 });
    expect(run.errors).toMatchObject({
      JSON_INVALID: { count: 1 },
      VARIABLE_MISSING: { count: 3 },
    });
    expect(workers).toMatchObject([{ state: "successful", host: "here", pid: 1, device: "cpu" }]);
    const worker = workers[0]!.id;
    expect(tasks[1]).toMatchObject({ state: "successful", code: "0", rows: 5, failed: 1, worker });
    const spared = await readerOf(await sealed({ maxFailedRows: 4 })).read();
    expect(spared.run.state).toBe("successful");
  });

  it("tells what a budget has left, and that it stopped the run", async () => {
    const prices = { promptUsdPerMillion: 0, completionUsdPerMillion: 1_000_000 };
    const budget = { tokens: 1, usd: 5000, minutes: 9 };
    const model = { engine: "fake", latencyMs: 10, capacity: 1 } as const;
    const run = preparedRun(scratchFolder(), undefined, { model, budget, prices });
    const { summary } = await carriedOut(run);
    const { run: status } = await readerOf(run).read();
    expect(status.state).toBe("canceled");
    expect(status.reason).toMatch(/^the budget is spent: \d+ of 1 tokens$/);
    expect(status.budget?.budget).toEqual(budget);
    const { tokens, usd, minutes } = status.budget!.spent;
    expect(tokens).toBe(summary.prompt_tokens + summary.total_tokens_generated);
    expect(usd).toBe(summary.usd);
    expect(minutes).toBeGreaterThan(0);
    const whole = { ...run, job: { ...run.job, budget: { minutes: 60 } } };
    const ended = await carriedOut(whole);
    expect(ended.summary.usd).toBeGreaterThan(summary.usd ?? 0);
    const sealedStatus = (await readerOf(run).read()).run;
    expect(sealedStatus.budget?.spent.usd).toBe(ended.summary.usd);
    expect((await readerOf(await sealed()).read()).run.budget).toBeNull();
  });

  it("tells what is running: an attempt without a commit, and a process that lives", async () => {
    const { run, tasks, workers } = await readerOf(await halfDone(false)).read({ tasks: true });
    expect(run).toMatchObject({ state: "running", reason: "by process 1 on here" });
    expect(run.tasks).toEqual({ ...counts, successful: 2, running: 2, pending: 1, total: 5 });
    expect(run.openTasks).toBe("2-4");
    expect(run.rows).toMatchObject({ answered: 8, failed: 2 });
    expect(tasks.map(({ state }) => state)).toEqual([
      "successful",
      "successful",
      "running",
      "running",
      "pending",
    ]);
    expect(workers[0]!.state).toBe("running");
  });

  it("counts what is answered in tasks without a commit", async () => {
    const run = await halfDone(false, { keepJournals: true });
    const parts = ["part-00002.jsonl", "part-00003.jsonl"].map((path) => textOf(run, path));
    const lines = parts.join("").trimEnd().split("\n");
    expect((await readerOf(run).read()).run.rows).toMatchObject({
      answered: 8,
      journaled: lines.length,
    });
  });

  it("tells a run whose process died", async () => {
    const { run, workers } = await readerOf(await halfDone(false), [1]).read();
    expect(run).toMatchObject({ state: "failed", reason: "its process died" });
    expect(run.tasks).toEqual({ ...counts, successful: 2, failed: 2, pending: 1, total: 5 });
    expect(workers[0]!.state).toBe("failed");
  });

  it("tells a run that waits at a scheduler, until one of its workers has begun", async () => {
    const run = await halfDone(true, { maxFailedRows: 9 });
    const coordinator = JSON.parse(textOf(run, "_sluice/coordinators/000001.json")).id;
    const submission = { scheduler: "slurm", id: "7", coordinator, sent: "#!/bin/sh" };
    mkdirSync(join(run.location.directory, "_sluice/submissions"));
    putText(run, "_sluice/submissions/000001.json", `${JSON.stringify(submission)}\n`);
    expect((await readerOf(run).read()).run.state).toBe("canceled");
    for (const path of filesOf(run)) {
      if (path.startsWith("_sluice/workers/")) rmSync(join(run.location.directory, path));
    }
    const { run: status } = await readerOf(run).read();
    expect(status).toMatchObject({ state: "pending", reason: "submitted as slurm 7" });
    expect(status.submissions).toEqual([{ scheduler: "slurm", id: "7", coordinator }]);
  });

  it("tells a run that was stopped or canceled", async () => {
    const run = await halfDone(true);
    const stopped = await readerOf(run).read();
    expect(stopped.run).toMatchObject({ state: "canceled", reason: "stopped" });
    expect(stopped.run.tasks).toEqual({ ...counts, successful: 2, canceled: 3, total: 5 });
    folderFor(run, "_sluice/cancel");
    putText(run, "_sluice/cancel/000001.json", '{"id":"0"}\n');
    expect((await readerOf(run).read()).run.reason).toBe("stopped");
    putText(run, "_sluice/cancel/000002.json", '{"id":"z"}\n');
    const canceled = await readerOf(run).read();
    expect(canceled.run).toMatchObject({ state: "canceled", reason: "by sluice cancel" });
  });

  it("tells the error that ended a run, and the task that had it", async () => {
    const run = await halfDone(true);
    const reader = readerOf(run);
    await reader.read();
    const error = { code: "ENDPOINT_DOWN", message: "it is down", hint: "start it" } as const;
    log(run, {
      type: "task-start",
      task: 3,
      worker: "w1",
      rows: 5,
      resumed: 0,
      resumedUsage: noUsage,
    });
    log(run, endOf(3, { error }));
    const { run: status, tasks } = await reader.read({ tasks: true });
    expect(status).toMatchObject({ state: "failed", reason: "ENDPOINT_DOWN: it is down" });
    expect(tasks[3]).toMatchObject({ state: "failed", code: "ENDPOINT_DOWN", worker: "w1" });
  });

  it("tells a run that its failed rows stopped", async () => {
    const run = await halfDone(true, { maxFailedRows: 3 });
    // Two rows of the two committed tasks failed.
    rmSync(join(run.location.directory, "_sluice/events/000001.jsonl"));
    log(run, endOf(2, { outcome: "canceled", failed: 1 }));
    expect((await readerOf(run).read()).run.state).toBe("canceled");
    log(run, endOf(3, { outcome: "canceled", failed: 1 }));
    expect((await readerOf(run).read()).run).toMatchObject({
      state: "failed",
      reason: "TOO_MANY_FAILED_ROWS: 4 failed, 3 allowed",
    });
  });

  it("tells a run whose tasks are all done, and who is left to seal it", async () => {
    const run = await sealed({ maxFailedRows: 4 });
    for (const path of filesOf(run)) {
      if (/^(_SUCCESS|_manifest|_sluice\/(seals|manifests))/.test(path)) {
        rmSync(join(run.location.directory, path));
      } else if (path.endsWith(".heartbeat")) putText(run, path, '{"beat":7,"ended":false}\n');
    }
    const left = (await readerOf(run, [1]).read()).run;
    expect(left).toMatchObject({ state: "failed", tasks: { successful: 5, total: 5 } });
    expect(left.reason).toBe("its process died; every task is done, and only the seal is missing");
    // The last joining worker has no worker process any more.
    const path = claimOwnerPath("w", JSON.parse(textOf(run, "_sluice/plan.json")));
    folderFor(run, dirname(path));
    const joiner = { ...processesOf(2).self(), beat: 3, hasEnded: false };
    putText(run, path, JSON.stringify(joiner));
    const sealing = (await readerOf(run, [1]).read()).run;
    expect(sealing).toMatchObject({
      state: "running",
      reason: "every task is done, and its seal is due",
    });
    expect((await readerOf(run, [1, 2]).read()).run).toMatchObject({ state: "failed" });
    putText(run, path, JSON.stringify({ ...joiner, hasEnded: true }));
    expect((await readerOf(run, [1]).read()).run).toMatchObject({ state: "failed" });
  });

  it("tells an error that its process met itself", async () => {
    const run = preparedRun(scratchFolder());
    const failing = {
      ...{
        name: "local",
        check: async () => {},
        workersFor: async () => ({ workers: 1, notices: [] }),
      },
      async prepare() {
        throw new SluiceError("STORE_FULL", "no room for a model");
      },
      run: () => Promise.reject(new Error("unreachable")),
    };
    const call = { overwrite: false, fork: false, ...nothingPrepared, onEvent() {} };
    const ended = runJob(run.job, run.dependencies, { backendOf: () => failing, ...call });
    await expect(ended).rejects.toMatchObject({ code: "STORE_FULL" });
    expect((await readerOf(run).read()).run).toMatchObject({
      ...{ state: "failed", reason: expect.stringMatching(/^STORE_FULL: .*no room for a model/) },
    });
  });

  it("reads only what is new, and tells a retry", async () => {
    const run = await sealed();
    const reader = readerOf(run);
    expect((await reader.read({ tasks: true })).run.generation).toBe(1);
    await retried(run, "Say {{ text | default('nothing') }}");
    const { run: status, tasks } = await reader.read({ tasks: true });
    expect(status).toMatchObject({
      generation: 2,
      retries: 1,
      openRetry: null,
      rows: { answered: 22, failed: 1 },
      tasks: { successful: 5, total: 5 },
    });
    expect(tasks.map(({ rows }) => rows)).toEqual([5, 5, 5, 5, 3]);
  });
});
