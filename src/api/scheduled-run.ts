import type { ScheduledWork } from "../backends/context.ts";
import type { SubmittedRun } from "../backends/joining/scheduler.ts";
import { openBackends } from "../backends/registry.ts";
import { asSluiceError, type SluiceError } from "../foundation/errors.ts";
import { type CancelEnd, type CancelRunOptions, cancelRun, workersLeft } from "../run/cancel.ts";
import { leadingCoordinator } from "../run/coordinate/coordinator.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import type { RunLocation } from "../run/directory/locate.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import { readPlan } from "../run/plan/plan.ts";
import { cancelProviderBatches } from "../run/provider-batches/provider-side.ts";
import { submissionsTo } from "../run/submissions.ts";
import { backendContext } from "./backend-context.ts";
import type { Surroundings } from "./surroundings.ts";

/** A run whose work a scheduler may carry out. */
export interface ScheduledRun {
  location: RunLocation;
  dependencies: RunDependencies;
  backend: string;
  /** Undefined if that works in the process of its caller only. */
  scheduled: ScheduledWork | undefined;
  /** A scheduler starts its workers, and not a coordinator. */
  isJoining: boolean;
  /** What the scheduler was given, read anew at each call. */
  submitted(): Promise<SubmittedRun>;
  /** Cancels the batches that the run has at a provider; returns how many. */
  cancelBatches(): Promise<number>;
}

/** Opens a run with the backend of its last call. @throws SluiceError `NOT_A_RUN`. */
export async function openScheduled(
  location: RunLocation,
  dependencies: RunDependencies,
  surroundings: Surroundings,
): Promise<ScheduledRun> {
  const storage = runStorage(dependencies.openStorage(location.directory));
  const plan = await readPlan(storage);
  const job = (await leadingCoordinator(storage))?.job ?? plan.job;
  const { backend } = job;
  const context = backendContext(surroundings, dependencies.logger);
  const { scheduled, delegate } = openBackends(context).of(job);
  return {
    ...{ location, dependencies, backend, scheduled },
    isJoining: scheduled !== undefined && delegate === undefined,
    submitted: async () => ({
      location: location.directory,
      job,
      submissions: await submissionsTo(storage, backend),
    }),
    async cancelBatches() {
      const { engineContext } = await import("./run-dependencies.ts");
      return cancelProviderBatches(storage, job, engineContext(surroundings, dependencies.logger));
    },
  };
}

/** How a run was stopped everywhere. */
export interface CanceledRun {
  end: CancelEnd;
  /** The number of workers that its scheduler had, or why the scheduler cannot be told. */
  placed: number | SluiceError;
  /** The number of batches that its provider had, or why the provider cannot be told. */
  batches: number | SluiceError;
}

/**
 * Stops a run wherever it goes on: its processes, the workers that its scheduler has, and the
 * batches that a provider has.
 */
export async function cancelAll(
  { dependencies, location, scheduled, submitted, cancelBatches }: ScheduledRun,
  options: CancelRunOptions,
): Promise<CanceledRun> {
  const { signal } = options;
  const untilLeft = () => workersLeft(dependencies, location, signal);
  const cancelPlaced = async () =>
    (await scheduled?.cancel(await submitted(), untilLeft).catch(asSluiceError)) ?? 0;
  let placed: Promise<number | SluiceError> | undefined;
  // Told together: a worker that leaves by itself may be started again.
  const end = await cancelRun(dependencies, location, {
    ...options,
    onAsked(lives) {
      placed = cancelPlaced();
      options.onAsked?.(lives);
    },
  });
  const told = await (placed ?? cancelPlaced());
  // Last, so that no worker is left to wonder at them.
  const batches = await cancelBatches().catch(asSluiceError);
  const isSome = (count: number | SluiceError) => typeof count === "number" && count > 0;
  return {
    end: end === "idle" && (isSome(told) || isSome(batches)) ? "ended" : end,
    placed: told,
    batches,
  };
}
