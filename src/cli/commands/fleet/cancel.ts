import type { Command } from "commander";
import { cancelAll, openScheduled } from "../../../api/scheduled-run.ts";
import { SluiceError } from "../../../foundation/errors.ts";
import { sortableId } from "../../../foundation/ids.ts";
import { requestCancel } from "../../../run/coordinate/coordinator.ts";
import { locateRun } from "../../../run/directory/locate.ts";
import { runStorage } from "../../../run/directory/run-storage.ts";
import { type CliIo, write } from "../../io.ts";
import { withStoreFlags } from "../../store-flags.ts";
import { tellOthers } from "../cancel.ts";
import { openTargetFleet, type TargetFlags, withTarget } from "./target.ts";

interface CancelFlags extends TargetFlags {
  hard?: boolean;
}

/** Running programs may go on as long as a timer can wait: 24 days. */
export const softGraceMs = 2 ** 31 - 1;

/** Longest wait for programs that were ended. */
const waitMs = 15_000;

/** `sluice fleet cancel`. */
export function register(fleet: Command, given: CliIo): void {
  const command = fleet
    .command("cancel")
    .description("Start no more programs of a fleet. Running programs finish.");
  const io = withStoreFlags(command, given);
  withTarget(command)
    .option("--hard", "end the running programs as well, and wait for that")
    .action((flags: CancelFlags) => cancel(flags, io));
}

async function cancel(flags: CancelFlags, io: CliIo): Promise<void> {
  const { fleet, dependencies } = await openTargetFleet(flags, io);
  const [{ runOfBatch }, { readFleet }] = await Promise.all([
    import("../../../run/fleet/fleet.ts"),
    import("../../../run/fleet/fleet-status.ts"),
  ]);
  const { status } = await readFleet(fleet, dependencies);
  const runs = new Map(status.runs.map((run) => [run.location, run]));
  const places = fleet.batches.map((batch) => runOfBatch(fleet, batch));
  // One that is not planned yet will be.
  const open = places.filter((place) => (runs.get(place)?.sealedAt ?? null) === null);
  if (open.length === 0) {
    throw new SluiceError("USAGE", `fleet ${fleet.record.name} has ended (${status.state})`, {
      hint: "only a fleet with open tasks can be canceled",
    });
  }
  const { clock, random, openStorage } = dependencies;
  for (const place of open) {
    const graceMs = flags.hard ? 0 : softGraceMs;
    // Also where nobody is at work: a batch that waits for its turn must not begin.
    await requestCancel(runStorage(openStorage(place)), sortableId(clock, random), graceMs);
    if (!runs.has(place)) continue;
    const opened = await openScheduled(locateRun(place), dependencies, io);
    // A coordinator lets programs come to their end. Without one, workers that leave are started
    // again, and those that wait may still begin.
    if (!flags.hard && !opened.isJoining) continue;
    const waitFor = flags.hard ? waitMs : 0;
    tellOthers(await cancelAll(opened, { waitMs: waitFor, graceMs }), opened.backend, io);
  }
  await write(io, `Canceling fleet '${fleet.record.name}'...\nOK\n`);
}
