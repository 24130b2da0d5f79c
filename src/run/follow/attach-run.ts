import { sleep } from "../../foundation/clock.ts";
import { errorFromRecord, SluiceError } from "../../foundation/errors.ts";
import { committedTasks } from "../attempt/commits.ts";
import { countCancels, leadingCoordinator } from "../coordinate/coordinator.ts";
import { isAtWork, lookAtLives } from "../coordinate/lives.ts";
import type { RunDependencies } from "../dependencies.ts";
import type { RunLocation } from "../directory/locate.ts";
import { runStorage } from "../directory/run-storage.ts";
import { pendingTasks } from "../dispatch/pending-tasks.ts";
import { readPlan } from "../plan/plan.ts";
import { openRetry } from "../retry/abandon-retry.ts";
import { type RunContext, runContext } from "../run-context.ts";
import type { Manifest } from "../seal/manifest.ts";
import { sealAsLeader } from "../seal/seal-as-leader.ts";
import { readManifest } from "../seal/seals.ts";
import type { RunEvent } from "../status/events.ts";
import { placesOf, type RunResult, sealedResult, stoppedResult } from "../status/run-result.ts";
import { RunFollower } from "./run-follower.ts";

const lookIntervalMs = 1000;
/** Looks between two questions whether anybody works; each may take 5 s. */
const looksPerLife = 5;

export interface AttachOptions {
  onEvent(event: RunEvent): void;
  /** Aborted to leave; the run continues. */
  signal: AbortSignal;
  /**
   * How many workers a scheduler runs or will start; undefined if it cannot be asked. Default:
   * there is no scheduler.
   */
  countPlaced?(): Promise<number | undefined>;
}

/**
 * Follows a run that others carry out, to its end. If they leave it complete and unsealed, it is
 * sealed here.
 *
 * @throws the signal's reason; SluiceError `NOT_A_RUN`.
 */
export async function attachRun(
  location: RunLocation,
  dependencies: RunDependencies,
  { onEvent, signal, countPlaced = async () => 0 }: AttachOptions,
): Promise<RunResult> {
  const { clock, openStorage } = dependencies;
  const startMs = clock.monotonic();
  const storage = runStorage(openStorage(location.directory));
  const first = await readPlan(storage);
  const plan = (await openRetry(storage, first)) ?? first;
  const context = runContext(location, plan, dependencies, "", storage);
  const pending = await pendingTasks(context, await committedTasks(storage, plan));
  const places = placesOf(location, plan.generation);
  const { tasks } = pending;
  const follower = new RunFollower({ storage, plan, clock, tasks, hasCoordinators: true, onEvent });
  const cancels = await countCancels(storage);
  const ended = async (error?: SluiceError) => ({
    ...(await follower.end(tasks, error)),
    runTimeSec: (clock.monotonic() - startMs) / 1000,
  });
  const resultOf = async (manifest: Manifest, wasSealed: boolean): Promise<RunResult> => {
    const job = (await leadingCoordinator(storage))?.job ?? plan.job;
    const end = wasSealed ? { runTimeSec: 0, generatedTokens: 0, resumedRows: 0 } : await ended();
    const resumedRows = wasSealed ? manifest.rows.total : pending.committedRows + end.resumedRows;
    return sealedResult(manifest, job, { ...places, ...end, resumedRows }, wasSealed);
  };
  const standing = await sealOf(context);
  if (standing) return await resultOf(standing, true);
  await follower.read();
  onEvent({
    type: "run-start",
    ...{ runId: plan.runId, output: places.output, generation: plan.generation },
    ...{ tasks: plan.tasks.count, rows: plan.rows },
    ...{ resumedTasks: pending.committed.size, resumedRows: pending.committedRows },
  });
  for (let look = 1; ; look++) {
    await follower.read();
    const sealed = await sealOf(context);
    if (sealed) {
      await follower.readEnds();
      const { total, failed } = sealed.rows;
      onEvent({ type: "run-seal", manifest: places.manifestPath, rows: total, failed });
      return await resultOf(sealed, false);
    }
    const isDue = look % looksPerLife === 0;
    if (isDue && !(await goesOn(context, dependencies, countPlaced, signal))) {
      // The last process may have sealed the run on its way out.
      if (await sealOf(context)) continue;
      await follower.read();
      const committed = await committedTasks(storage, plan);
      if (plan.generation === 1 && committed.size === plan.tasks.count) {
        await sealAsLeader({ location, dependencies });
        continue;
      }
      const wasCanceled = (await countCancels(storage)) > cancels;
      const error = wasCanceled ? new SluiceError("RUN_CANCELED") : lostCause(follower);
      const { runTimeSec, ...end } = await ended(error);
      const resumedRows = pending.committedRows + end.resumedRows;
      return await stoppedResult(context, end, { ...places, resumedRows, runTimeSec });
    }
    await sleep(clock, lookIntervalMs, signal);
  }
}

async function sealOf({ storage, plan }: RunContext): Promise<Manifest | undefined> {
  const manifest = await readManifest(storage);
  return manifest && manifest.generation >= plan.generation ? manifest : undefined;
}

async function goesOn(
  { storage, clock }: RunContext,
  { processes }: RunDependencies,
  countPlaced: NonNullable<AttachOptions["countPlaced"]>,
  signal: AbortSignal,
): Promise<boolean> {
  if ((await countPlaced()) !== 0) return true;
  return isAtWork(await lookAtLives(storage, { clock, processes, signal }));
}

/** Why the last process stopped, as it said. */
function lostCause({ stops }: RunFollower): SluiceError {
  const stop = stops.findLast(({ code }) => code !== "RUN_CANCELED") ?? stops.at(-1);
  return stop ? errorFromRecord(stop) : new SluiceError("WORKERS_GONE");
}
