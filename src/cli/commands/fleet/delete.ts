import type { Command } from "commander";
import { SluiceError } from "../../../foundation/errors.ts";
import { type CliIo, write } from "../../io.ts";
import { withStoreFlags } from "../../store-flags.ts";
import { openTargetFleet, placeFlags, type TargetFlags, withTarget } from "./target.ts";

/** `sluice fleet delete`. */
export function register(fleet: Command, given: CliIo): void {
  const command = fleet.command("delete").description("Remove a fleet with its logs and results.");
  const io = withStoreFlags(command, given);
  withTarget(command)
    .option("-f, --force", "without asking, as scripts of Code Engine call it")
    .action((flags: TargetFlags) => remove(flags, io));
}

async function remove(flags: TargetFlags, io: CliIo): Promise<void> {
  const { fleet, root, dependencies } = await openTargetFleet(flags, io);
  const [{ deleteFleet }, { readFleet }] = await Promise.all([
    import("../../../run/fleet/fleet.ts"),
    import("../../../run/fleet/fleet-status.ts"),
  ]);
  const { status } = await readFleet(fleet, dependencies);
  // A process, or the workers of a scheduler, may just start.
  const open = status.runs.find(({ state }) => state === "running" || state === "pending");
  if (open) {
    const { name } = fleet.record;
    const named = name + placeFlags(flags, io);
    throw new SluiceError("COORDINATOR_LIVES", `fleet ${name} is ${open.state}`, {
      hint: `cancel it first: sluice fleet cancel --name ${named}`,
    });
  }
  await deleteFleet(fleet, dependencies.openStorage(root));
  await write(io, `Deleting fleet '${fleet.record.name}'...\nOK\n`);
}
