import type { Command } from "commander";
import { runDependencies } from "../../../api/run-dependencies.ts";
import { textLogger } from "../../../foundation/logger.ts";
import { type CliIo, write, writeJson } from "../../io.ts";
import { withStoreFlags } from "../../store-flags.ts";
import { age } from "./get.ts";
import { rootOf, type TargetFlags, withPlace } from "./target.ts";

/** `sluice fleet list`: the fleets of a place. */
export function register(fleet: Command, given: CliIo): void {
  const command = fleet.command("list").description("List the fleets.");
  const io = withStoreFlags(command, given);
  withPlace(command)
    .option("--json", "print a line of JSON for each")
    .action((flags: TargetFlags) => list(flags, io));
}

async function list(flags: TargetFlags, io: CliIo): Promise<void> {
  const [{ fleetsAt }, { readFleet }, { table }] = await Promise.all([
    import("../../../run/fleet/fleet.ts"),
    import("../../../run/fleet/fleet-status.ts"),
    import("../../../terminal/table.ts"),
  ]);
  const dependencies = runDependencies(
    io,
    textLogger((line) => void io.stderr.write(line)),
  );
  const rows: string[][] = [];
  for await (const fleet of fleetsAt(rootOf(flags, io), dependencies)) {
    const { status } = await readFleet(fleet, dependencies);
    const { tasks } = status;
    if (flags.json) await writeJson(io, { ...fleet.record, ...status });
    const counts = [tasks.total, tasks.successful, tasks.failed].map(String);
    rows.push([status.name, status.id, status.state, ...counts, age(status.ageSeconds)]);
  }
  if (flags.json) return;
  const columns = ["Name", "ID", "Status", "Tasks", "Successful", "Failed", "Age"];
  const lines = table(columns, rows);
  await write(io, `${["Listing serverless fleets...", "OK", "", ...lines].join("\n")}\n`);
}
