import { describe, expect, it } from "vitest";
import { joiningBackend } from "../../src/backends/joining/joining.ts";
import type {
  Scheduler,
  SchedulerClient,
  ShareState,
  ShareWork,
} from "../../src/backends/joining/scheduler.ts";
import { sleep } from "../../src/foundation/clock.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import { limits } from "../../src/foundation/limits.ts";
import { type Commit, createCommit, noCounts } from "../../src/run/attempt/commit.ts";
import { countCancels, requestCancel } from "../../src/run/coordinate/coordinator.ts";
import { eventLogPath } from "../../src/run/directory/layout.ts";
import type { BackendRun } from "../../src/run/dispatch/backend.ts";
import type { RunEvent } from "../../src/run/status/events.ts";
import { readSubmissions } from "../../src/run/submissions.ts";
import { changedStorage, plannedRun, rowsOf } from "../run/run-fixture.ts";

/**
 * A scheduler of which a test says what it knows. The real ones take minutes for what goes wrong
 * here in a moment; test/integration and test/peers run them.
 */
function scheduled() {
  const works: ShareWork[] = [];
  const canceled: string[] = [];
  const states = new Map<string, ShareState>();
  const scheduler: Scheduler = {
    name: "queue",
    check: async () => {},
    render(work) {
      works.push(work);
      return { text: "work", file: "work.txt", command: ["submit"] };
    },
    client: clientOf(works, states, canceled),
  };
  const end = (id: string, more: Partial<ShareState>) => {
    states.set(id, { ...states.get(id)!, state: "failed", ...more });
  };
  return { scheduler, states, end, works, canceled };
}

function clientOf(
  works: ShareWork[],
  states: Map<string, ShareState>,
  canceled: string[],
): SchedulerClient {
  return {
    maxShares: async () => 100,
    async submit() {
      const submission = String(works.length);
      for (const share of works.at(-1)!.shares) {
        const id = `${submission}_${share}`;
        states.set(id, { submission, share, id, state: "running" });
      }
      return submission;
    },
    look: async () => [...states.values()],
    async cancel(ids) {
      canceled.push(...ids);
      for (const state of states.values()) state.state = "canceled";
    },
    logs: async () => {},
  };
}

/** A run of four tasks on that scheduler. */
async function running(more: Partial<BackendRun> = {}, isBroken: () => boolean = () => false) {
  const run = await plannedRun(rowsOf(8), { shard: { rows: 2 } });
  const { clock, plan } = run;
  const storage = changedStorage(run.storage, (inner) => ({
    async *list(prefix: string) {
      if (isBroken()) throw new SluiceError("STORE_FAILED", "not reachable");
      yield* inner.list(prefix);
    },
  }));
  const known = scheduled();
  const notices: string[] = [];
  const options = { program: ["sluice"], check: async () => {}, prepare: async () => {} };
  const stop = new AbortController();
  const call = () =>
    joiningBackend(known.scheduler, options).run({
      context: { ...run.context, storage },
      location: "/run/out",
      job: plan.job,
      tasks: [0, 1, 2, 3],
      rowsOf: () => 2,
      workers: 2,
      maxFailedRows: undefined,
      failedBefore: 0,
      isDetached: false,
      onEvent: (event: RunEvent) => void (event.type === "notice" && notices.push(event.message)),
      signal: stop.signal,
      ...more,
    });
  const commit = async (...tasks: number[]) => {
    const { runId: run, generation } = plan;
    for (const task of tasks) {
      await createCommit(storage, plan, { ...noCounts, task, run, generation } as Commit);
    }
  };
  /** Adds to the events of a worker, as it would. */
  const write = async (event: object) => {
    const { runId, generation } = plan;
    const begin = { type: "run-start", runId, generation, resumedRows: 0 };
    const appender = await storage.appender(eventLogPath("worker"));
    await appender.append(Buffer.from(`${JSON.stringify(begin)}\n${JSON.stringify(event)}\n`));
    await appender.close();
  };
  return { ...known, storage, clock, stop, notices, call, commit, write };
}

describe("joiningBackend", () => {
  it("submits a worker a share, records that, and ends with the last commit", async () => {
    const { call, clock, commit, works, storage, notices } = await running();
    const ended = call();
    await clock.run(sleep(clock, 5000));
    expect(works).toMatchObject([{ takers: 2, shares: [0, 1], program: ["sluice"] }]);
    expect(await readSubmissions(storage)).toMatchObject([
      { scheduler: "queue", id: "1", takers: 2, shares: "0-1", sent: "work" },
    ]);
    await commit(0, 1, 2, 3);
    expect((await clock.run(ended)).error).toBeUndefined();
    expect(notices).toEqual(["2 workers submitted as queue 1"]);
  });

  it("submits and ends where it is detached", async () => {
    const { call, clock, works, states } = await running({ isDetached: true });
    const { error } = await clock.run(call());
    expect(error?.code).toBe("RUN_DETACHED");
    expect([works.length, states.size]).toEqual([1, 2]);
  });

  it("doubles no worker, and submits what those of an earlier call leave", async () => {
    const { call, clock, commit, end, states, works, notices } = await running();
    states.set("0_1", { submission: "0", share: 1, id: "0_1", state: "pending" });
    const ended = call();
    await clock.run(sleep(clock, 10_000));
    expect(works).toEqual([]);
    await commit(2, 3);
    end("0_1", { state: "successful" });
    await clock.run(sleep(clock, 5000));
    expect(works).toMatchObject([{ takers: 4, shares: [0, 1] }]);
    await commit(0, 1);
    expect((await clock.run(ended)).error).toBeUndefined();
    expect(notices).toEqual([
      "1 worker is there already, as queue 0: nothing is submitted",
      "2 workers submitted as queue 1",
    ]);
  });

  it("submits again what the scheduler refused, and says why if it never takes it", async () => {
    for (const isDown of [false, true]) {
      const { call, clock, commit, end, states, scheduler, works } = await running();
      states.set("0_1", { submission: "0", share: 1, id: "0_1", state: "running" });
      const { submit } = scheduler.client;
      scheduler.client.submit = async (rendered) => {
        if (isDown || works.length === 1) throw new SluiceError("SCHEDULER_REFUSED", "no room");
        return await submit(rendered);
      };
      const ended = call();
      await clock.run(sleep(clock, 3000));
      end("0_1", { state: "successful" });
      await clock.run(sleep(clock, 20_000));
      if (!isDown) await commit(0, 1, 2, 3);
      const { error } = await clock.run(ended);
      expect(error?.code).toBe(isDown ? "SCHEDULER_REFUSED" : undefined);
      if (isDown) expect(error!.message).toContain("no room");
      else expect([...states.keys()]).toEqual(["0_1", "2_0", "2_1"]);
    }
  });

  it("tells of each lost worker, and ends with all of them when none is left", async () => {
    const { call, clock, end, notices } = await running();
    const ended = call();
    await clock.run(sleep(clock, 3000));
    end("1_0", { exitCode: 69, node: "n1" });
    await clock.run(sleep(clock, 10_000));
    expect(notices.slice(1)).toEqual([
      expect.stringMatching(/^queue 1_0 on n1 ended with exit code 69: sluice logs .* --share 0$/),
    ]);
    end("1_1", { reason: "node_fail" });
    const { error } = await clock.run(ended);
    expect(error).toMatchObject({ code: "WORKERS_GONE" });
    expect(error?.message).toContain("tasks are open; queue 1_0 exit code 69, 1_1 failed");
    expect(error?.hint).toContain("the same command submits the rest again");
  });

  it("ends its workers with the run, but not if another process leads it now", async () => {
    for (const [code, ids] of [
      ["RUN_CANCELED", ["1"]],
      ["COORDINATOR_LOST", []],
    ] as const) {
      const { call, clock, stop, canceled } = await running();
      const ended = call();
      await clock.run(sleep(clock, 3000));
      stop.abort(new SluiceError(code));
      expect((await clock.run(ended)).error?.code).toBe(code);
      expect(canceled).toEqual(ids);
    }
  });

  it("lets workers leave before it ends them, if that would give them no time", async () => {
    for (const leavesAfterMs of [4000, 60_000]) {
      const { call, clock, stop, canceled, scheduler, storage, write } = await running();
      const held: string[] = [];
      scheduler.client.hold = async (ids) => void held.push(...ids);
      const ended = call();
      await clock.run(sleep(clock, 3000));
      await write({ type: "worker-start", worker: "w", pid: 1, capacity: 1, engine: "fake" });
      await clock.run(sleep(clock, 3000));
      const cancels = await countCancels(storage);
      stop.abort(new SluiceError("RUN_CANCELED"));
      await clock.run(sleep(clock, 2000));
      expect([held, canceled]).toEqual([["1"], []]);
      // By that, the workers know.
      expect(await countCancels(storage)).toBe(cancels + 1);
      await clock.run(sleep(clock, leavesAfterMs - 2000));
      expect(canceled).toEqual(leavesAfterMs < limits.maxLeaveMs ? [] : ["1"]);
      await write({ type: "worker-end", worker: "w" });
      expect((await clock.run(ended)).error?.code).toBe("RUN_CANCELED");
      expect(canceled).toEqual(["1"]);
    }
  });

  it.each(["look", "hold"] as const)(
    "stops workers in the run directory if %s fails, and ends them once the scheduler answers",
    async (call) => {
      const { call: begin, clock, stop, canceled, scheduler, storage, notices } = await running();
      if (call === "hold") scheduler.client.hold = async () => {};
      const works = scheduler.client[call] as () => Promise<never>;
      const ended = begin();
      await clock.run(sleep(clock, 3000));
      scheduler.client[call] = async () => {
        throw new SluiceError("SCHEDULER_REFUSED", "the controller is down");
      };
      const cancels = await countCancels(storage);
      stop.abort(new SluiceError("BUDGET_SPENT"));
      await clock.run(sleep(clock, 2000));
      expect(await countCancels(storage)).toBe(cancels + 1);
      scheduler.client[call] = works;
      expect((await clock.run(ended)).error?.code).toBe("BUDGET_SPENT");
      expect(new Set(canceled)).toEqual(new Set(["1"]));
      if (call === "look") expect(notices.join()).toContain("the controller is down");
    },
  );

  it("ends what is on record if the scheduler never says what is there", async () => {
    const { call, clock, stop, canceled, scheduler, storage } = await running();
    const ended = call();
    await clock.run(sleep(clock, 3000));
    scheduler.client.look = async () => {
      throw new SluiceError("SCHEDULER_REFUSED", "an answer that nobody can read");
    };
    stop.abort(new SluiceError("RUN_CANCELED"));
    expect((await clock.run(ended)).error?.code).toBe("RUN_CANCELED");
    expect(canceled).toContain("1");
    expect(await countCancels(storage)).toBeGreaterThan(0);
  });

  it("says that workers may continue if their scheduler never answers to a stop", async () => {
    const { call, clock, stop, canceled, scheduler, storage, notices } = await running();
    const ended = call();
    await clock.run(sleep(clock, 3000));
    const isDown = async () => {
      throw new SluiceError("SCHEDULER_REFUSED", "the controller is down");
    };
    Object.assign(scheduler.client, { look: isDown, cancel: isDown });
    const cancels = await countCancels(storage);
    stop.abort(new SluiceError("RUN_CANCELED"));
    expect((await clock.run(ended)).error?.code).toBe("RUN_CANCELED");
    expect([await countCancels(storage), canceled]).toEqual([cancels + 1, []]);
    expect(notices.at(-1)).toMatch(
      /^workers at queue may continue: .*the controller is down; sluice cancel .* tries again$/,
    );
  });

  it("is canceled where its workers see that first, and submits none in their place", async () => {
    const { call, clock, end, states, storage, works } = await running();
    states.set("0_1", { submission: "0", share: 1, id: "0_1", state: "running" });
    const ended = call();
    await clock.run(sleep(clock, 3000));
    await requestCancel(storage, "test");
    end("0_1", { exitCode: 75 });
    expect((await clock.run(ended)).error?.code).toBe("RUN_CANCELED");
    expect(works).toEqual([]);
  });

  it("is complete where its workers commit the last tasks as they are ended", async () => {
    const { call, clock, commit, scheduler, stop } = await running();
    const { cancel } = scheduler.client;
    scheduler.client.cancel = async (ids) => {
      await commit(0, 1, 2, 3);
      await cancel(ids);
    };
    const ended = call();
    await clock.run(sleep(clock, 3000));
    stop.abort(new SluiceError("RUN_CANCELED"));
    expect((await clock.run(ended)).error).toBeUndefined();
  });

  it("waits for a store that cannot be reached, and not for ever", async () => {
    let isBroken = false;
    const { call, clock, commit } = await running({}, () => isBroken);
    const ended = call();
    await clock.run(sleep(clock, 3000));
    isBroken = true;
    await clock.run(sleep(clock, 30_000));
    isBroken = false;
    await commit(0, 1, 2, 3);
    expect((await clock.run(ended)).error).toBeUndefined();

    const other = await running({}, () => isBroken);
    const failed = other.call();
    await other.clock.run(sleep(other.clock, 3000));
    isBroken = true;
    expect((await other.clock.run(failed)).error?.code).toBe("STORE_FAILED");
  });
});
