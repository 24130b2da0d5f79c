import { sleep } from "../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { committedTasks } from "../attempt/commits.ts";
import { countCancels } from "../coordinate/coordinator.ts";
import type { BackendRun } from "../dispatch/backend.ts";
import type { DispatchEnd } from "../dispatch/dispatch.ts";
import { RunFollower } from "./run-follower.ts";

/** Time between two looks at the run directory; more if a look takes long. */
const lookIntervalMs = 1000;
const maxLookShare = 0.1;
/** Time until it looks again after a look that failed, however long that took. */
const failedLookIntervalMs = 5000;
/** Looks in a row that may fail, such as while a store is not reachable. */
const maxFailedLooks = 60;

/** What only the backend knows of the workers. */
export interface Placement {
  /** Starts what is missing. Its errors end the call. */
  begin(): Promise<void>;
  /**
   * Called again and again: why no worker will do the open tasks; undefined while one may.
   *
   * @param heard whether workers are heard, and why others stopped, as they said.
   */
  lostCause(heard: Pick<RunFollower, "hasWorkers" | "stops">): Promise<SluiceError | undefined>;
  /**
   * Ends the workers; resolves when they are gone, or after a while.
   *
   * @param hasLeft whether no worker is heard any more.
   */
  stop(hasLeft: () => Promise<boolean>): Promise<void>;
}

/**
 * The run of a backend whose workers share the tasks among themselves. Events and counts are those
 * of the run directory. Never rejects.
 */
export async function followTasks(run: BackendRun, placement: Placement): Promise<DispatchEnd> {
  const { storage, plan, clock } = run.context;
  const onEvent: BackendRun["onEvent"] = (event) => run.onEvent(event, true);
  const { tasks } = run;
  const follower = new RunFollower({
    storage,
    plan,
    clock,
    tasks,
    hasCoordinators: false,
    onEvent,
  });
  let open: readonly number[] = tasks;
  const look = async () => {
    await follower.read();
    const committed = await committedTasks(storage, plan);
    open = tasks.filter((task) => !committed.has(task));
  };
  const hasLeft = async () => {
    await follower.read();
    return !follower.hasWorkers;
  };
  try {
    const cancels = await countCancels(storage);
    await look();
    await placement.begin();
    if (run.isDetached) return await follower.end(open, new SluiceError("RUN_DETACHED"));
    const cause = await followUntil(run, look, async () => {
      if (open.length === 0) return true;
      // Workers may end by it before the signal of this process is aborted.
      if ((await countCancels(storage)) > cancels) return new SluiceError("RUN_CANCELED");
      const lost = await placement.lostCause(follower);
      // A worker may have committed its last task between the two looks.
      if (lost) await look();
      return open.length === 0 || (lost ?? false);
    });
    if (cause?.code === "RUN_CANCELED") throw cause;
    if (cause === undefined) await follower.readEnds();
    await look();
    return await follower.end(open, cause);
  } catch (thrown) {
    const error = asSluiceError(run.signal.aborted ? run.signal.reason : thrown);
    // Another process leads now, or the workers are to go on.
    const isTheirs = error.code === "COORDINATOR_LOST" || error.code === "RUN_DETACHED";
    const isStopped = run.signal.aborted ? !isTheirs : error.code === "RUN_CANCELED";
    if (isStopped) {
      await placement.stop(hasLeft).catch((failure: unknown) => {
        const { message } = asSluiceError(failure);
        run.onEvent({ type: "notice", message: `workers may continue: ${message}` });
      });
    }
    await look().catch(() => {});
    // The stop came when nothing was left to stop: the run is to be sealed.
    return await follower.end(open, isStopped && open.length === 0 ? undefined : error);
  }
}

/** @throws the reason of the signal, and the error of too many failed looks. */
async function followUntil(
  { signal, context: { clock, logger } }: BackendRun,
  look: () => Promise<void>,
  isOver: () => Promise<boolean | SluiceError>,
): Promise<SluiceError | undefined> {
  for (let failed = 0; ; ) {
    signal.throwIfAborted();
    const startMs = clock.monotonic();
    try {
      await look();
      const over = await isOver();
      if (over === true) return undefined;
      if (over !== false) return over;
      failed = 0;
      const tookMs = clock.monotonic() - startMs;
      await sleep(clock, Math.max(lookIntervalMs, tookMs / maxLookShare), signal);
    } catch (error) {
      signal.throwIfAborted();
      if (++failed > maxFailedLooks) throw error;
      logger.log("debug", `cannot look at the run: ${asSluiceError(error).message}`);
      await sleep(clock, failedLookIntervalMs, signal);
    }
  }
}
