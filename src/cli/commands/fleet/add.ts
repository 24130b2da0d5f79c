import type { Command } from "commander";
import { SluiceError } from "../../../foundation/errors.ts";
import { textLogger } from "../../../foundation/logger.ts";
import { type CliIo, write, writeJson } from "../../io.ts";
import { withStoreFlags } from "../../store-flags.ts";
import { namedPlaces, sourceFlags, withSource } from "./create.ts";
import { planner, startDriver } from "./start.ts";
import { nextFlags, openTargetFleet, type TargetFlags, withTarget } from "./target.ts";

interface AddFlags extends TargetFlags {
  tasksFromLocalFile?: string;
  count?: string;
  tasks?: string;
  indexes?: string;
  tasksFrom?: string;
  dataStore?: readonly string[];
}

/** `sluice fleet add`, which is also `fleet task add|create`: more tasks for a fleet. */
export function register(parent: Command, given: CliIo): void {
  const command = parent.command("add").description("Give a fleet more tasks.");
  if (parent.name() === "task") command.alias("create");
  const io = withStoreFlags(command, given);
  withSource(withTarget(command))
    .option("--json", "print JSON")
    .action((flags: AddFlags) => add(flags, io));
}

async function add(flags: AddFlags, io: CliIo): Promise<void> {
  const logger = textLogger((line) => void io.stderr.write(line));
  const target = await openTargetFleet(flags, io, logger);
  const [{ addToFleet }, { checkFleet }] = await Promise.all([
    import("../../../run/fleet/fleet.ts"),
    import("../../../run/fleet/fleet-file.ts"),
  ]);
  const given = checkFleet(sourceFlags(flags), namedPlaces(flags.dataStore ?? []), {
    origin: { from: "default" },
  });
  const { dependencies } = target;
  const fleet = await addToFleet(
    target.fleet,
    {
      ...given,
      workingDirectory: io.workingDirectory,
      plan: planner(io, dependencies, logger),
    },
    dependencies,
  );
  const batch = fleet.batches.at(-1);
  if (batch === undefined) throw new SluiceError("RUN_DAMAGED", fleet.location);
  await startDriver(fleet, batch, flags, io);
  if (flags.json) return await writeJson(io, batch);
  const noun = batch.tasks === 1 ? "task" : "tasks";
  const lines = [
    `Successfully added ${batch.tasks} ${noun} to fleet '${fleet.record.name}'`,
    `Run 'sluice fleet task list ${nextFlags("--fleet-id", fleet, flags, io)}' to retrieve a list of tasks.`,
    "OK",
  ];
  await write(io, `${lines.join("\n")}\n`);
}
