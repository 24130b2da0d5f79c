import { type Command, Option } from "commander";
import { backendContext } from "../../../api/backend-context.ts";
import { openBackends } from "../../../backends/registry.ts";
import { sleep } from "../../../foundation/clock.ts";
import { exitCodes } from "../../../foundation/error-table.ts";
import { asSluiceError, SluiceError } from "../../../foundation/errors.ts";
import { sortableId } from "../../../foundation/ids.ts";
import { leadingCoordinator } from "../../../run/coordinate/coordinator.ts";
import { locateRun } from "../../../run/directory/locate.ts";
import { runStorage } from "../../../run/directory/run-storage.ts";
import type { Fleet, FleetBatch } from "../../../run/fleet/fleet.ts";
import type { StatusReport } from "../../../run/status/status.ts";
import { openProgress } from "../../../terminal/progress.ts";
import type { CliIo } from "../../io.ts";
import { startOptions } from "../../run-call.ts";
import { withOwnStores } from "../../run-target.ts";
import { withStoreFlags } from "../../store-flags.ts";
import { untilSignal } from "../../until-signal.ts";
import { type FleetTarget, openTargetFleet, type TargetFlags, withTarget } from "./target.ts";

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
    code = (await resumeBatch(target, batch, flags, io)) || code;
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

async function resumeBatch(
  target: FleetTarget,
  batch: FleetBatch,
  flags: ResumeFlags,
  io: CliIo,
): Promise<number> {
  for (;;) {
    const run = (await untilIdle(target, batch, io))?.run;
    if (run === undefined) throw neverPlanned(target.fleet, batch);
    if (run.sealedAt !== null)
      return run.state === "successful" ? exitCodes.ok : exitCodes.failedRows;
    if (run.state === "canceled" && flags.only !== undefined) return exitCodes.resumable;
    try {
      return await resumeOnce(target.fleet, batch, flags, io);
    } catch (thrown) {
      const error = asSluiceError(thrown);
      // Another process was faster.
      if (error.code === "COORDINATOR_LIVES") continue;
      if (flags.only !== undefined) await noteFailedStart(target, batch, error).catch(() => {});
      throw thrown;
    }
  }
}

/** Keeps why nobody leads the run of a batch: the process that was started for that says it here. */
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
  const { clock, logger, random, openStorage } = dependencies;
  const storage = runStorage(openStorage(runOfBatch(fleet, batch)));
  // A coordinator keeps its own events.
  if (await leadingCoordinator(storage)) return;
  const { runId, generation, tasks, rows } = await readPlan(storage);
  const writer = sortableId(clock, random);
  const events = await EventStream.open({ storage, clock, logger, writer, onEvent() {} });
  const counts = { tasks: tasks.count, rows, resumedTasks: 0, resumedRows: 0 };
  events.add({ type: "run-start", runId, generation, output: storage.location, ...counts });
  events.add({ type: "run-stop", error: error.toJSON() });
  await events.close();
}

/** The call that gave the batch was interrupted. */
function neverPlanned({ record: { name } }: Fleet, { number }: FleetBatch): SluiceError {
  return new SluiceError("NOT_A_RUN", `batch ${number} of fleet ${name} is not planned`, {
    hint: `if no other call is planning it: sluice fleet delete --name ${name}, and create it again`,
  });
}

async function resumeOnce(
  fleet: Fleet,
  batch: FleetBatch,
  flags: ResumeFlags,
  io: CliIo,
): Promise<number> {
  const [{ runOfBatch }, { startRun }, { openTarget }] = await Promise.all([
    import("../../../run/fleet/fleet.ts"),
    import("../../../api/start-run.ts"),
    import("../../run-target.ts"),
  ]);
  const progress = openProgress(flags, io);
  const backends = openBackends(backendContext(io, progress.logger));
  const place = runOfBatch(fleet, batch);
  try {
    const { dependencies } = await withOwnStores(await openTarget(place, io, progress.logger), io);
    const location = locateRun(place);
    const { result, exitCode } = await untilSignal(io, progress.logger, (signal, listen) =>
      startRun(
        { kind: "resume", location, change: async (job) => job },
        {
          ...startOptions(
            { backendOf: backends.of, dependencies, signal, install: true },
            progress,
            listen,
          ),
          // Its first process obeys a request that came before it was ready.
          ...(flags.only !== undefined && { cancelsBefore: 0 }),
        },
      ),
    );
    if (result.error) progress.logger.log("error", result.error.message);
    return exitCode ?? result.exitCode;
  } finally {
    progress.close();
    backends.close();
  }
}
