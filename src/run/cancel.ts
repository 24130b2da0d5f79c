import { sleep } from "../foundation/clock.ts";
import { sortableId } from "../foundation/ids.ts";
import { requestCancel } from "./coordinate/coordinator.ts";
import { lookAtLives, type RunLives } from "./coordinate/lives.ts";
import type { RunDependencies } from "./dependencies.ts";
import type { RunLocation } from "./directory/locate.ts";
import { runStorage } from "./directory/run-storage.ts";
import { readPlan } from "./plan/plan.ts";

/** What became of a request to cancel. */
export type CancelEnd =
  /** Nobody was at work; nothing was asked. */
  | "idle"
  /** Asked, and not waited for. */
  | "asked"
  /** Everybody who was at work has left. */
  | "ended"
  /** Somebody still works after the wait. */
  | "pending";

export interface CancelOptions {
  /** How long the end is waited for; 0 = not. */
  waitMs: number;
  /** Told who is at work, once it was asked to stop. */
  onAsked?(lives: RunLives): void;
  signal?: AbortSignal;
}

const lookIntervalMs = 300;

/**
 * Asks whoever works on a run, on whatever host, to stop: they take no more rows, put on file what
 * they have, and leave. What is done stays done.
 *
 * @throws SluiceError `NOT_A_RUN`, and the signal's reason.
 */
export async function cancelRun(
  { clock, random, processes, openStorage }: RunDependencies,
  { directory }: RunLocation,
  { waitMs, onAsked, signal }: CancelOptions,
): Promise<CancelEnd> {
  const storage = runStorage(openStorage(directory));
  await readPlan(storage);
  const look = () => lookAtLives(storage, { clock, processes, ...(signal && { signal }) });
  const lives = await look();
  if (!isAtWork(lives)) return "idle";
  await requestCancel(storage, sortableId(clock, random));
  onAsked?.(lives);
  if (waitMs === 0) return "asked";
  const start = clock.monotonic();
  while (clock.monotonic() - start < waitMs) {
    await sleep(clock, lookIntervalMs, signal);
    if (!isAtWork(await look())) return "ended";
  }
  return "pending";
}

function isAtWork({ coordinator, workers }: RunLives): boolean {
  return coordinator?.lives === true || workers.some(({ lives }) => lives);
}
