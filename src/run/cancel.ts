import { sleep } from "../foundation/clock.ts";
import { sortableId } from "../foundation/ids.ts";
import { limits } from "../foundation/limits.ts";
import { requestCancel } from "./coordinate/coordinator.ts";
import { isAtWork, lookAtLives, type RunLives } from "./coordinate/lives.ts";
import type { RunDependencies } from "./dependencies.ts";
import type { RunLocation } from "./directory/locate.ts";
import { runStorage } from "./directory/run-storage.ts";
import { readPlan } from "./plan/plan.ts";

export type CancelEnd =
  /** No process was at work; no request was made. */
  | "idle"
  /** Requested, without waiting. */
  | "asked"
  /** Every process at work has left. */
  | "ended"
  /** A process still works after the wait. */
  | "pending";

export interface CancelRunOptions {
  /** Longest wait for the end; 0 = no wait. */
  waitMs: number;
  /** Time for requests in flight; default `limits.stopGraceMs`. */
  graceMs?: number;
  /** Called with the processes at work, once they were asked to stop. */
  onAsked?(lives: RunLives): void;
  signal?: AbortSignal;
}

const lookIntervalMs = 300;

/**
 * Asks the processes that work on a run, on any host, to stop: they take no more rows, store their
 * results, and leave. Finished rows stay finished.
 *
 * @throws SluiceError `NOT_A_RUN`, and the signal's reason.
 */
export async function cancelRun(
  { clock, random, processes, openStorage }: RunDependencies,
  { directory }: RunLocation,
  { waitMs, graceMs, onAsked, signal }: CancelRunOptions,
): Promise<CancelEnd> {
  const storage = runStorage(openStorage(directory));
  await readPlan(storage);
  const look = () => lookAtLives(storage, { clock, processes, signal });
  const lives = await look();
  if (!isAtWork(lives)) return "idle";
  await requestCancel(storage, sortableId(clock, random), graceMs);
  onAsked?.(lives);
  if (waitMs === 0) return "asked";
  const start = clock.monotonic();
  while (clock.monotonic() - start < waitMs) {
    await sleep(clock, lookIntervalMs, signal);
    if (!isAtWork(await look())) return "ended";
  }
  return "pending";
}

/** Resolves once no worker of a run is at work any more, or after the longest time for that. */
export async function workersLeft(
  { clock, processes, openStorage }: RunDependencies,
  { directory }: RunLocation,
  signal?: AbortSignal,
): Promise<void> {
  const storage = runStorage(openStorage(directory));
  const start = clock.monotonic();
  while (clock.monotonic() - start < limits.maxLeaveMs) {
    const { workers } = await lookAtLives(storage, { clock, processes, signal });
    if (!workers.some(({ lives }) => lives)) return;
    await sleep(clock, lookIntervalMs, signal);
  }
}
