import type { Command } from "commander";
import type { Storage } from "../../data/storage/storage.ts";
import { sleep } from "../../foundation/clock.ts";
import type { StatusReport } from "../../run/status/status.ts";
import { type CliIo, write, writeJson } from "../io.ts";
import { openTarget, withRun } from "../run-target.ts";

interface StatusFlags {
  tasks?: boolean;
  workers?: boolean;
  watch?: boolean;
  json?: boolean;
}

const watchIntervalMs = 2000;

/** `sluice status DIR`: the state of a run. */
export function register(command: Command, given: CliIo): void {
  const io = withRun(command, given);
  command
    .option("--tasks", "a table of its tasks as well")
    .option("--workers", "a table of its workers as well")
    .option("--watch", "show it again every 2 s, until the run is sealed or stopped")
    .option("--json", "print JSON")
    .action((run: string, options: StatusFlags) => status(run, options, io));
}

async function status(run: string, options: StatusFlags, io: CliIo): Promise<void> {
  const { StatusReader } = await import("../../run/status/status.ts");
  const { storage, dependencies } = await openTarget(run, io);
  const { clock, processes } = dependencies;
  const stop = new AbortController();
  const ignore = io.onSignal(() => stop.abort());
  const signal = AbortSignal.any([stop.signal, io.outputClosed]);
  const reader = new StatusReader(storage, { clock, processes, signal });
  let drawn = 0;
  try {
    for (;;) {
      const report = await reader.read({ tasks: options.tasks ?? false });
      drawn = await show(report, drawn, { ...options, flags: storage.flags }, io);
      const goesOn = report.run.state === "running" || report.run.state === "pending";
      if (!options.watch || !goesOn) return;
      await sleep(clock, watchIntervalMs, signal);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    ignore();
  }
}

/** Prints a report, on a terminal over the previous one; returns its number of lines. */
async function show(
  report: StatusReport,
  drawn: number,
  options: StatusFlags & Pick<Storage, "flags">,
  io: CliIo,
): Promise<number> {
  if (options.json) {
    const taskList = options.tasks ? report.tasks : undefined;
    const workerList = options.workers ? report.workers : undefined;
    await writeJson(io, { ...report.run, taskList, workerList });
    return 0;
  }
  const { statusLines } = await import("../status-view.ts");
  // Only lines that are overwritten must not wrap: elsewhere, errors are shown in full.
  const isRedrawn = options.watch === true && io.isOutputTerminal;
  const columns = isRedrawn ? io.columns() : Number.POSITIVE_INFINITY;
  const lines = statusLines(report, options, columns);
  const back = drawn > 0 && isRedrawn ? `\u001b[${drawn}A\r\u001b[J` : "";
  await write(io, `${back}${lines.join("\n")}\n`);
  return lines.length;
}
