import type { Command } from "commander";
import { softwareVersion } from "../../../entry.ts";
import { type CliIo, write } from "../../io.ts";
import { withStoreFlags } from "../../store-flags.ts";
import { openTargetFleet, type TargetFlags, withTarget } from "./target.ts";

/** `sluice fleet worker list`: the workers of a fleet. */
export function register(fleet: Command, given: CliIo): void {
  const worker = fleet.command("worker").description("Look at the workers of a fleet.");
  const command = worker.command("list").description("List the workers of a fleet.");
  const io = withStoreFlags(command, given);
  withTarget(command)
    .option("--json", "print a line of JSON for each")
    .action((flags: TargetFlags) => list(flags, io));
}

async function list(flags: TargetFlags, io: CliIo): Promise<void> {
  const { fleet, dependencies } = await openTargetFleet(flags, io);
  const [{ readFleet }, { table }] = await Promise.all([
    import("../../../run/fleet/fleet-status.ts"),
    import("../../../terminal/table.ts"),
  ]);
  const { workers } = await readFleet(fleet, dependencies);
  if (flags.json) {
    for (const worker of workers) await write(io, `${JSON.stringify(worker)}\n`);
    return;
  }
  const { cpu, memory, gpu } = fleet.record;
  const profile = [`${cpu}x${memory ?? "-"}`, ...(gpu === undefined ? [] : [gpu])].join("x");
  const rows = workers.map(({ name, id, state, host, scheduler }) => [
    ...[name, id, state, profile, host, scheduler ?? "local", `v${softwareVersion()}`],
  ]);
  const columns = ["Name", "ID", "Status", "Profile", "IP", "Zone", "Version"];
  const lines = table(
    columns.map((title) => ({ title })),
    rows,
  );
  await write(io, `${["Listing serverless fleet workers...", "OK", "", ...lines].join("\n")}\n`);
}
