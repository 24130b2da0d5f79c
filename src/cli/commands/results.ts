import type { Command } from "commander";
import { type CliIo, write } from "../io.ts";
import { openTarget, runArgument } from "../run-target.ts";

interface ResultsFlags {
  follow?: boolean;
  failed?: boolean;
}

/** `sluice results DIR`: what is done, in input order, on stdout. */
export function register(command: Command, io: CliIo): void {
  command
    .argument(...runArgument)
    .option("--follow", "wait for what is not done yet, to the end of the run")
    .option("--failed", "print the dead letters: the rows that failed, each with its cause")
    .action((run: string, options: ResultsFlags) => results(run, options, io));
}

async function results(run: string, options: ResultsFlags, io: CliIo): Promise<void> {
  const { resultChunks } = await import("../../run/results.ts");
  const { storage, outside } = await openTarget(run, io);
  const stop = new AbortController();
  const ignore = io.onSignal(() => stop.abort());
  const chunks = resultChunks(storage, outside, {
    failed: options.failed ?? false,
    follow: options.follow ?? false,
    clock: io.clock,
    signal: AbortSignal.any([stop.signal, io.outputClosed]),
  });
  try {
    let next = await chunks.next();
    for (; !next.done; next = await chunks.next()) await write(io, next.value);
    const { gap, tasks } = next.value;
    if (gap !== undefined && !options.follow) {
      const note = `task ${gap} of ${tasks} is not done yet (tasks count from 0)`;
      io.stderr.write(`${note}: what follows it is not printed; --follow waits for it\n`);
    }
  } finally {
    ignore();
  }
}
