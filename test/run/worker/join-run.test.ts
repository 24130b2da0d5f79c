import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { runCommandLine } from "../../../src/cli/program.ts";
import { localStorage } from "../../../src/data/storage/local.ts";
import { channelPair } from "../../../src/foundation/channel.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { noUsage } from "../../../src/foundation/inference.ts";
import { claimPrefix } from "../../../src/run/directory/layout.ts";
import { locateRun } from "../../../src/run/directory/locate.ts";
import { readJson } from "../../../src/run/directory/records.ts";
import type { JobSpec } from "../../../src/run/job/schema.ts";
import { joinRun, type StartJoinedWorker } from "../../../src/run/worker/join-run.ts";
import type { FromWorker, ToWorker } from "../../../src/run/worker/protocol.ts";
import { openProgress } from "../../../src/terminal/progress.ts";
import { stubIo } from "../../cli/io-stub.ts";
import { changedStorage, errorOf } from "../run-fixture.ts";
import { carriedOut, dependenciesOf, preparedRun, scratchFolder } from "../whole-run.ts";

/** A run that is planned and not begun: five tasks, of which tasks 0, 1, 2 and 4 have a bad row. */
async function planned(maxFailedRows: number, ...more: string[]) {
  const { folder } = preparedRun(scratchFolder());
  const { io, state } = stubIo({ workingDirectory: folder });
  const options = ["--input", "rows.jsonl", "--model", "fake", "--prompt", "Say {{ text }}"];
  const settings = ["--set", "shard.rows=5", "--set", `maxFailedRows=${maxFailedRows}`];
  const args = ["plan", ...options, ...settings, ...more, "--output", "out", "--write"];
  await runCommandLine(args, io, { version: "1" });
  expect(state.exitCode).toBeUndefined();
  return locateRun(`${folder}/out`);
}

function work(
  location: ReturnType<typeof locateRun>,
  tasks: string | { share: string },
  startWorker?: StartJoinedWorker,
  openStorage = localStorage,
) {
  // Much time passes between any two looks at the clock.
  let ms = 0;
  const clock = { ...systemClock, monotonic: () => (ms += 60_000) };
  const { io, written } = stubIo({ clock });
  const dependencies = dependenciesOf({ clock, openStorage });
  const { onEvent, logger } = openProgress({}, io);
  const { signal } = new AbortController();
  const engineContext = {
    ...dependencies,
    environment: {},
    homeDirectory: "/nowhere",
    hostCommand: [],
    killProcess() {},
  };
  const options = typeof tasks === "string" ? { tasks } : tasks;
  const serving = { location, generation: 1, dependencies, engineContext };
  const ended = joinRun(serving, { ...options, onEvent, logger, signal, startWorker });
  return { ended, written };
}

describe("a worker of fixed tasks", () => {
  it("counts the failed rows of all tasks that are committed, not only of its own", async () => {
    const location = await planned(1);
    for (const task of ["0", "1"]) await work(location, task).ended;
    const late = work(location, "2");
    expect((await errorOf(late.ended)).code).toBe("TOO_MANY_FAILED_ROWS");
  });

  it("keeps to the budget of the run: what others have spent counts", async () => {
    const location = await planned(9, "--set", "budget.tokens=20");
    await work(location, "0").ended;
    const late = work(location, "1");
    expect((await errorOf(late.ended)).code).toBe("BUDGET_SPENT");
  });

  it("keeps to the limits of the call that led last, not to those of the plan", async () => {
    const run = preparedRun(scratchFolder());
    const stop = AbortSignal.abort(new SluiceError("RUN_CANCELED"));
    const calledWith = (maxFailedRows: number, budget: JobSpec["budget"]) =>
      carriedOut({ ...run, job: { ...run.job, maxFailedRows, budget } }, stop);
    await calledWith(9, {});
    await calledWith(0, {});
    await work(run.location, "0").ended;
    expect((await errorOf(work(run.location, "1").ended)).code).toBe("TOO_MANY_FAILED_ROWS");
    await calledWith(9, { tokens: 1 });
    expect((await errorOf(work(run.location, "2").ended)).code).toBe("BUDGET_SPENT");
    await calledWith(9, {});
    expect(await work(run.location, "0-4").ended).toBe(true);
  });

  it("takes the place on its machine that its part has, for the GPUs there", async () => {
    const location = await planned(9);
    const slots: number[] = [];
    const startWorker: StartJoinedWorker = async (_plan, _directory, _logger, slot) => {
      slots.push(slot);
      throw new Error("enough");
    };
    for (const tasks of ["3", { share: "0/2" }, { share: "1/2" }]) {
      const { code } = await errorOf(work(location, tasks, startWorker).ended);
      expect(code).toBe("ENGINE_START_FAILED");
    }
    expect(slots).toEqual([0, 0, 1]);
  });

  it("counts those that others commit while it works", async () => {
    const location = await planned(2);
    const [near, far] = channelPair<ToWorker, FromWorker>();
    const gone = Promise.withResolvers<string>();
    const heard: ToWorker[] = [];
    far.onMessage((message) => {
      heard.push(message);
      if (message.type === "worker-stop") gone.resolve("it left");
    });
    const handle = { channel: near, kill: () => gone.resolve("killed"), ended: gone.promise };
    const { ended } = work(location, "3-4", async () => handle);
    const error = errorOf(ended);
    const facts = { worker: "w", pid: 1, protocol: 1, capacity: 1, engine: "fake", choices: {} };
    far.send({ type: "worker-ready", ...facts });
    await expect.poll(() => heard).toContainEqual({ type: "task-run", task: 3 });
    await work(location, "0-1").ended;
    const counts = { done: 5, failed: 0, usage: noUsage, errors: {} };
    far.send({ type: "task-end", task: 3, outcome: "committed", ...counts });
    const progress = { ...counts, failed: 1, waiting: 0, inFlight: 1 };
    far.send({ type: "task-progress", task: 4, ...progress });
    expect((await error).code).toBe("TOO_MANY_FAILED_ROWS");
  });

  it("does not say that it has ended before it has sealed the run", async () => {
    const location = await planned(9);
    const seen: unknown[] = [];
    const looking = (place: string) =>
      changedStorage(localStorage(place), (inner) => ({
        async createIfAbsent(path, data) {
          const isSeal = path.startsWith("_sluice/seals/");
          for await (const { path: claim } of inner.list(isSeal ? claimPrefix : "nowhere/")) {
            if (claim.includes("/owners/")) seen.push(await readJson(inner, claim));
          }
          return await inner.createIfAbsent(path, data);
        },
      }));
    expect(await work(location, "0-4", undefined, looking).ended).toBe(true);
    expect(seen).toMatchObject([{ hasEnded: false }]);
    const claims = localStorage(location.directory).list(claimPrefix);
    expect(await Array.fromAsync(claims)).toEqual([]);
  });

  it("says how many rows it has, also of a shorter last task and of done ones", async () => {
    const location = await planned(4);
    const first = work(location, "4");
    await first.ended;
    await setImmediate();
    expect(first.written.stderr).toContain("3 rows in 1 task");
    const second = work(location, "3-4");
    await second.ended;
    await setImmediate();
    expect(second.written.stderr).toContain("8 rows in 2 tasks");
    expect(second.written.stderr).toContain("done already: 1 task, 3 rows");
    expect(second.written.stderr).not.toContain("is sealed");
    const last = work(location, "0-2");
    await last.ended;
    await setImmediate();
    expect(last.written.stderr).toContain(`the run is sealed: ${location.directory}`);
  });
});
