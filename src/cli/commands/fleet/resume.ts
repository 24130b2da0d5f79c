import { type Command, Option } from "commander";
import type { OpenBackend } from "../../../backends/context.ts";
import { sleep } from "../../../foundation/clock.ts";
import { exitCodes } from "../../../foundation/error-table.ts";
import { asSluiceError, SluiceError } from "../../../foundation/errors.ts";
import type { Logger } from "../../../foundation/logger.ts";
import { leadingCoordinator } from "../../../run/coordinate/coordinator.ts";
import { locateRun } from "../../../run/directory/locate.ts";
import { runStorage } from "../../../run/directory/run-storage.ts";
import { isCancellation } from "../../../run/dispatch/backend.ts";
import type { Fleet, FleetBatch } from "../../../run/fleet/fleet.ts";
import type { StatusReport } from "../../../run/status/status.ts";
import type { CliIo } from "../../io.ts";
import { interruptionOf, startOptions, withOpenedRun } from "../../run-call.ts";
import { runArguments } from "../../run-target.ts";
import { withStoreFlags } from "../../store-flags.ts";
import { untilSignal } from "../../until-signal.ts";
import {
  type FleetTarget,
  openTargetFleet,
  placeFlags,
  type TargetFlags,
  withTarget,
} from "./target.ts";

interface ResumeFlags extends TargetFlags {
  only?: string;
  quiet?: boolean;
}

/** Longest wait for the process that a call just before has started for its batch. */
const maxStartMs = 30_000;

/** Time between two looks at a run that another process carries out. */
const lookIntervalMs = 1000;

/** `sluice fleet resume`: carries out what is open, in this process. */
export function register(fleet: Command, given: CliIo): void {
  const command = fleet
    .command("resume")
    .description("Carry out the open tasks of a fleet, in this process.");
  const io = withStoreFlags(command, given);
  withTarget(command)
    // For the process that create and add start.
    .addOption(new Option("--only <batch>", "this batch, unless it is canceled before").hideHelp())
    .option("--quiet", "no progress")
    .action((flags: ResumeFlags) => resumeFleet(flags, io));
}

/** Carries out the batches of a fleet one after another; sets the exit code. */
export async function resumeFleet(flags: ResumeFlags, io: CliIo): Promise<void> {
  const target = await openTargetFleet(flags, io);
  const { batches } = target.fleet;
  const only = flags.only === undefined ? undefined : Number(flags.only);
  const wanted = batches.filter(({ number }) => only === undefined || number === only);
  if (wanted.length === 0) throw new SluiceError("USAGE", `there is no batch ${flags.only}`);
  let code: number = exitCodes.ok;
  for (const batch of wanted) {
    for (const earlier of batches.filter(({ number }) => number < batch.number)) {
      await untilIdle(target, earlier, io, maxStartMs);
    }
    const end = await resumeBatch(target, batch, flags, io);
    code = end.code || code;
    // Whoever stops one batch wants no other to begin.
    if (end.isStopped) break;
  }
  io.setExitCode(code);
}

/**
 * Waits while other processes work on a batch: two at once would book the machine twice.
 *
 * @param maxPendingMs longest wait for a process that may just start.
 * @returns undefined for a batch that is not planned.
 */
async function untilIdle(
  target: FleetTarget,
  batch: FleetBatch,
  io: CliIo,
  maxPendingMs = 0,
): Promise<StatusReport | undefined> {
  const { runOfBatch } = await import("../../../run/fleet/fleet.ts");
  const { StatusReader } = await import("../../../run/status/status.ts");
  const { openStorage, processes, clock } = target.dependencies;
  const storage = runStorage(openStorage(runOfBatch(target.fleet, batch)));
  const reader = new StatusReader(storage, { processes, clock });
  const startMs = clock.monotonic();
  for (;;) {
    const report = await reader.read().catch((error: unknown) => {
      if (asSluiceError(error).code !== "NOT_A_RUN") throw error;
    });
    const state = report?.run.state ?? "pending";
    const mayStart = state === "pending" && clock.monotonic() - startMs < maxPendingMs;
    if (state !== "running" && !mayStart) return report ?? undefined;
    await sleep(io.clock, lookIntervalMs);
  }
}

interface BatchEnd {
  code: number;
  /** Somebody stopped it, or this process. */
  isStopped: boolean;
}

async function resumeBatch(
  target: FleetTarget,
  batch: FleetBatch,
  flags: ResumeFlags,
  io: CliIo,
): Promise<BatchEnd> {
  for (;;) {
    const run = (await untilIdle(target, batch, io))?.run;
    if (run === undefined) throw neverPlanned(target.fleet, batch, placeFlags(flags, io));
    if (run.sealedAt !== null) {
      if (flags.only === undefined && !flags.quiet) await tellFinished(target, batch, run.rows, io);
      const code = run.state === "successful" ? exitCodes.ok : exitCodes.failedRows;
      return { code, isStopped: false };
    }
    if (run.state === "canceled" && flags.only !== undefined) {
      return { code: exitCodes.resumable, isStopped: true };
    }
    try {
      return await resumeOnce(target.fleet, batch, flags, io);
    } catch (thrown) {
      const error = asSluiceError(thrown);
      // Another process was faster.
      if (error.code === "COORDINATOR_LIVES") continue;
      const isLeft = error.code === "RUN_DETACHED";
      if (flags.only !== undefined && !isLeft) await noteFailedStart(target, batch, error);
      throw thrown;
    }
  }
}

/** Says of a batch that is sealed why nothing is done, and what would run its failed tasks. */
async function tellFinished(
  { fleet, dependencies }: FleetTarget,
  batch: FleetBatch,
  { failed, total }: { failed: number; total: number },
  io: CliIo,
): Promise<void> {
  const { runOfBatch } = await import("../../../run/fleet/fleet.ts");
  const run = runArguments(runOfBatch(fleet, batch), dependencies, io);
  const more =
    failed === 0
      ? "there is nothing to do"
      : `${failed} of ${total} tasks failed; sluice retry ${run} runs them again`;
  io.stderr.write(`batch ${batch.number} of fleet ${fleet.record.name} is finished: ${more}\n`);
}

/** Keeps why nobody leads the run of a batch: only the process that was to lead knows. */
async function noteFailedStart(
  { fleet, dependencies }: FleetTarget,
  batch: FleetBatch,
  error: SluiceError,
): Promise<void> {
  const [{ runOfBatch }, { readPlan }, { EventStream }] = await Promise.all([
    import("../../../run/fleet/fleet.ts"),
    import("../../../run/plan/plan.ts"),
    import("../../../run/status/event-stream.ts"),
  ]);
  const { clock, logger, openStorage } = dependencies;
  const storage = runStorage(openStorage(runOfBatch(fleet, batch)));
  const look = Promise.all([leadingCoordinator(storage), readPlan(storage)]);
  const [leader, plan] = await look.catch(() => []);
  // A coordinator keeps its own events.
  if (leader || !plan) return;
  const { runId, generation, tasks, rows } = plan;
  // The first coordinator has number 1.
  const events = await EventStream.open({ storage, clock, logger, writer: 0, onEvent() {} });
  const counts = { tasks: tasks.count, rows, resumedTasks: 0, resumedRows: 0 };
  events.add({ type: "run-start", runId, generation, output: storage.location, ...counts });
  events.add({ type: "run-stop", error: error.toJSON() });
  await events.close();
}

/**
 * What a signal does to a batch whose workers a scheduler started. The process in the background
 * only follows them: the end of its login, or of its machine, must not end them.
 */
function interruption(backend: OpenBackend, isInBackground: boolean, logger: Logger) {
  const asked = interruptionOf(backend, logger);
  return isInBackground ? { ...asked, interrupt: asked.leave } : asked;
}

/** The call that gave the batch was interrupted. */
function neverPlanned({ record }: Fleet, { number }: FleetBatch, place: string): SluiceError {
  const name = record.name + place;
  return new SluiceError("NOT_A_RUN", `batch ${number} of fleet ${record.name} is not planned`, {
    hint: `if no other call is planning it: sluice fleet delete --name ${name}, and create it again`,
  });
}

async function resumeOnce(
  fleet: Fleet,
  batch: FleetBatch,
  flags: ResumeFlags,
  io: CliIo,
): Promise<BatchEnd> {
  const [{ runOfBatch }, { startRun }] = await Promise.all([
    import("../../../run/fleet/fleet.ts"),
    import("../../../api/start-run.ts"),
  ]);
  const place = runOfBatch(fleet, batch);
  return await withOpenedRun(place, flags, io, async ({ target, progress, backends }) => {
    const { dependencies, storage, plan } = target;
    const location = locateRun(place);
    const backend = backends.of((await leadingCoordinator(storage))?.job ?? plan.job);
    const isFirst = flags.only !== undefined;
    const { result, exitCode } = await untilSignal(
      io,
      progress.logger,
      (signal, listen) => {
        if (backend.delegate) listen();
        const call = { backendOf: backends.of, dependencies, signal, install: true };
        return startRun(
          { kind: "resume", location, change: async (job) => job },
          {
            ...startOptions(call, progress, listen),
            // Its first process obeys a request that came before it was ready.
            cancelsBefore: isFirst ? 0 : undefined,
          },
        );
      },
      backend.scheduled && interruption(backend, isFirst, progress.logger),
    );
    const { error } = result;
    const isLeft = error?.code === "RUN_DETACHED";
    if (error) progress.logger.log(isLeft ? "info" : "error", error.message);
    const isCanceled = error !== undefined && isCancellation(error);
    const isStopped = exitCode !== undefined || isLeft || isCanceled;
    return { code: exitCode ?? result.exitCode, isStopped };
  });
}
