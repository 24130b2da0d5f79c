import type { Command } from "commander";
import { SluiceError } from "../../../foundation/errors.ts";
import { oneOf } from "../../../foundation/suggest.ts";
import type { FleetTask } from "../../../run/fleet/fleet-status.ts";
import { stateWords } from "../../../run/status/state-words.ts";
import { type CliIo, write, writeJson } from "../../io.ts";
import { withStoreFlags } from "../../store-flags.ts";
import { register as registerAdd } from "./add.ts";
import { openTargetFleet, type TargetFlags, withTarget } from "./target.ts";

interface TaskFlags extends TargetFlags {
  status?: string;
  showAllColumns?: boolean;
}

/** `sluice fleet task list|add`: the tasks of a fleet. */
export function register(fleet: Command, given: CliIo): void {
  const task = fleet.command("task").description("List the tasks of a fleet, or add some.");
  registerAdd(task, given);
  const command = task.command("list").description("List the tasks of a fleet.");
  const io = withStoreFlags(command, given);
  withTarget(command)
    .option("--status <status>", `only tasks that are ${Object.keys(stateWords).join(", ")}`)
    .option("--show-all-columns", "also batch and cause")
    .option("--json", "print a line of JSON for each")
    .action((flags: TaskFlags) => list(flags, io));
}

async function list(flags: TaskFlags, io: CliIo): Promise<void> {
  const { status } = flags;
  if (status !== undefined && !Object.hasOwn(stateWords, status)) {
    throw new SluiceError("USAGE", `--status ${oneOf(status, Object.keys(stateWords))}`);
  }
  const { fleet, dependencies } = await openTargetFleet(flags, io);
  const { readFleet } = await import("../../../run/fleet/fleet-status.ts");
  const { tasks } = await readFleet(fleet, { ...dependencies, hasTasks: true });
  const shown = tasks.filter(({ state }) => status === undefined || state === status);
  if (flags.json) {
    for (const task of shown) await writeJson(io, task);
    return;
  }
  const { table } = await import("../../../terminal/table.ts");
  const columns = ["Index", "ID", "Status", "Result code", "Worker name"];
  if (flags.showAllColumns) columns.push("Batch", "Cause");
  const lines = table(columns, shown.map(cellsOf));
  await write(io, `${["Listing serverless fleet tasks...", "OK", "", ...lines].join("\n")}\n`);
}

function cellsOf(task: FleetTask): string[] {
  const { index, id, state, resultCode, worker, batch, cause } = task;
  const code = resultCode === null ? "-" : String(resultCode);
  return [`000-00000-${index}`, id, state, code, worker ?? "-", String(batch), cause ?? ""];
}
