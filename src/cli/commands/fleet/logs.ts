import type { Command } from "commander";
import { SluiceError } from "../../../foundation/errors.ts";
import type { FleetTask } from "../../../run/fleet/fleet-status.ts";
import { type CliIo, write } from "../../io.ts";
import { withStoreFlags } from "../../store-flags.ts";
import { type FleetTarget, openTargetFleet, type TargetFlags, withTarget } from "./target.ts";

interface LogFlags extends TargetFlags {
  index?: string;
  taskId?: string;
  allTries?: boolean;
}

/** `sluice fleet logs`: what the programs of a fleet wrote. */
export function register(fleet: Command, given: CliIo): void {
  const command = fleet.command("logs").description("Print what programs of a fleet wrote.");
  const io = withStoreFlags(command, given);
  withTarget(command)
    .option("--index <index>", "only the task with this index")
    .option("--task-id <id>", "only the task with this id")
    .option("--all-tries", "every try, not the last one only")
    .option("--json", "print the lines of the logs as they are stored")
    .action((flags: LogFlags) => logs(flags, io));
}

async function logs(flags: LogFlags, io: CliIo): Promise<void> {
  const target = await openTargetFleet(flags, io);
  const { readFleet } = await import("../../../run/fleet/fleet-status.ts");
  const { tasks } = await readFleet(target.fleet, { ...target.dependencies, hasTasks: true });
  const index = flags.index?.replace(/^000-00000-/, "");
  const shown = tasks.filter(
    (task) =>
      (index === undefined || task.index === index) &&
      (flags.taskId === undefined || task.id === flags.taskId),
  );
  if (shown.length === 0) {
    throw new SluiceError("USAGE", "the fleet has no such task", {
      hint: "sluice fleet task list shows indexes and ids",
    });
  }
  for (const task of shown) {
    if (io.outputClosed.aborted) return;
    await writeTask(task, target, { ...flags, isOnly: shown.length === 1 }, io);
  }
}

async function writeTask(
  { index, batch, row }: FleetTask,
  { fleet, dependencies }: FleetTarget,
  { allTries, json, isOnly }: LogFlags & { isOnly: boolean },
  io: CliIo,
): Promise<void> {
  const [{ logsOf, readLog }, { runOfBatch }, { runStorage }] = await Promise.all([
    import("../../../run/fleet/fleet-status.ts"),
    import("../../../run/fleet/fleet.ts"),
    import("../../../run/directory/run-storage.ts"),
  ]);
  const place = runOfBatch(fleet, fleet.batches.find(({ number }) => number === batch)!);
  const run = runStorage(dependencies.openStorage(place));
  const paths = await logsOf(run, row);
  for (const [at, path] of paths.entries()) {
    if (!allTries && at < paths.length - 1) continue;
    if (json) {
      await write(io, await run.read(path));
      continue;
    }
    if (!isOnly || allTries) await write(io, `==> task ${index}, try ${at + 1} <==\n`);
    const { output, end } = await readLog(run, path);
    for (const { text } of output) await write(io, text);
    const last = output.at(-1)?.text ?? "\n";
    if (!last.endsWith("\n")) await write(io, "\n");
    const leftOut = Number(end?.leftOutChars ?? 0);
    if (leftOut > 0) io.stderr.write(`task ${index}: ${leftOut} more characters were not kept\n`);
  }
}
