import type { Command } from "commander";
import type { Storage } from "../../data/storage/storage.ts";
import type { RunDependencies } from "../../run/dependencies.ts";
import { type CliIo, write } from "../io.ts";
import { openTarget, runArgument } from "../run-target.ts";
import { withStoreFlags } from "../store-flags.ts";

interface ResultsFlags {
  follow?: boolean;
  failed?: boolean;
}

/** `sluice results DIR`: what is done, in input order, on stdout. */
export function register(command: Command, given: CliIo): void {
  const io = withStoreFlags(command, given);
  command
    .argument(...runArgument)
    .option("--follow", "wait for what is not done yet, to the end of the run")
    .option("--failed", "print the dead letters: the rows that failed, each with its cause")
    .action((run: string, options: ResultsFlags) => results(run, options, io));
}

async function results(run: string, options: ResultsFlags, io: CliIo): Promise<void> {
  const { resultChunks } = await import("../../run/results.ts");
  const { storage, outside, dependencies } = await openTarget(run, io);
  const stop = new AbortController();
  const ignore = io.onSignal(() => stop.abort());
  const signal = AbortSignal.any([stop.signal, io.outputClosed]);
  const chunks = resultChunks(storage, outside, {
    failed: options.failed ?? false,
    follow: options.follow ?? false,
    clock: io.clock,
    signal,
    // What cannot be seen of others is no reason to stop.
    onWait: (task) => void tellIfIdle(task, storage, dependencies, io, signal).catch(() => {}),
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

/** Somebody who waits for a run that nobody works on should know it. */
async function tellIfIdle(
  task: number,
  storage: Storage,
  { processes, clock }: RunDependencies,
  io: CliIo,
  signal: AbortSignal,
): Promise<void> {
  const { lookAtLives } = await import("../../run/coordinate/lives.ts");
  const { coordinator, workers } = await lookAtLives(storage, { processes, clock, signal });
  if (coordinator?.lives || workers.some(({ lives }) => lives) || signal.aborted) return;
  const note = `task ${task} is not done yet (tasks count from 0), and nobody works on this run`;
  io.stderr.write(`${note}: sluice run or sluice worker goes on with it\n`);
}
