import type { Command } from "commander";
import { SluiceError } from "../../foundation/errors.ts";
import { memberTexts } from "../../foundation/json-members.ts";
import { linesOfChunks } from "../../foundation/lines.ts";
import type { DeadLetter } from "../../run/attempt/result-lines.ts";
import { readPlan } from "../../run/plan/plan.ts";
import type { ResultsEnd } from "../../run/status/results.ts";
import { type CliIo, type StopSignal, signalCodes, write } from "../io.ts";
import { openTarget, type RunTarget, runArguments, withRun } from "../run-target.ts";

interface ResultsFlags {
  follow?: boolean;
  failed?: boolean;
  asInput?: boolean;
  format?: string;
  output?: string;
  overwrite?: boolean;
}

/** `sluice results DIR`: the finished rows, in input order, on stdout or in a file. */
export function register(command: Command, given: CliIo): void {
  const io = withRun(command, given);
  command
    .option("--follow", "wait for the remaining rows, to the end of the run")
    .option("--failed", "the dead letters: the rows that failed, each with its cause")
    .option("--as-input", "with --failed: only the rows, unchanged from the input")
    .option("--format <name>", "jsonl, json, csv, tsv or parquet; default: by --output, or jsonl")
    .option("--output <file>", "write them to a file, such as answers.csv")
    .option("--overwrite", "replace the file of --output")
    .action((run: string, options: ResultsFlags) => results(run, options, io));
}

async function results(run: string, options: ResultsFlags, io: CliIo): Promise<void> {
  const { exportFormat, exportResults } = await import("../export-results.ts");
  const { resultChunks } = await import("../../run/status/results.ts");
  const format = exportFormat(options, io);
  if (options.asInput && (!options.failed || format.name !== "jsonl")) {
    throw new SluiceError("USAGE", "--as-input goes with --failed, and with lines of JSON", {
      hint: "sluice results RUN --failed --as-input --output failed.jsonl",
    });
  }
  const target = await openTarget(run, io);
  const { storage, outside } = target;
  // For other readers of the files; without write access, the seal's files can still be read.
  await mendResults(target).catch(() => {});
  const stop = new AbortController();
  let received: StopSignal | undefined;
  const ignore = io.onSignal((signal) => {
    received = signal;
    stop.abort();
  });
  const signal = AbortSignal.any([stop.signal, io.outputClosed]);
  let end: ResultsEnd | undefined;
  async function* chunks(): AsyncGenerator<Uint8Array> {
    const read = resultChunks(storage, outside, {
      failed: options.failed ?? false,
      follow: options.follow ?? false,
      clock: io.clock,
      signal,
      keepsSpecials: format.name === "parquet",
      // Reading continues if the state of other processes is unknown.
      onWait: (task) => void tellIfIdle(task, target, io, signal).catch(() => {}),
    });
    end = yield* read;
    // Otherwise a file that ends here would pass for a whole one.
    signal.throwIfAborted();
  }
  const read = options.asInput ? () => inputRows(chunks()) : chunks;
  try {
    const isPlain = format.name === "jsonl" && options.output === undefined;
    if (isPlain) for await (const chunk of read()) await write(io, chunk);
    else await exportResults(read, format, options, target, io);
    if (end?.gap !== undefined && !options.follow) {
      const note = `task ${end.gap} of ${end.tasks} is not done yet (tasks count from 0)`;
      io.stderr.write(`${note}: what follows it is not printed; --follow waits for it\n`);
    }
  } catch (error) {
    if (!signal.aborted || error !== signal.reason) throw error;
    if (received) io.setExitCode(signalCodes[received]);
  } finally {
    ignore();
  }
}

/** Publishes again what an older process has overwritten since the seal. */
async function mendResults({ storage, outside, dependencies }: RunTarget): Promise<void> {
  const { completeSeal } = await import("../../run/seal/publish-seal.ts");
  const { openStorage } = dependencies;
  await completeSeal({ storage, outside, openStorage }, await readPlan(storage), dependencies);
}

/** The rows of dead letters by their own bytes, a line each. */
async function* inputRows(letters: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const letter of linesOfChunks(letters)) {
    const { row, rowBase64 } = JSON.parse(letter) as DeadLetter;
    if (rowBase64 !== undefined) yield Buffer.from(rowBase64, "base64");
    // A row that could not be read as an object is there as text.
    else yield Buffer.from(typeof row === "string" ? row : memberTexts(letter).get("row")!);
    yield Buffer.from("\n");
  }
}

/** A user who waits for a run without a working process should know it. */
async function tellIfIdle(
  task: number,
  { storage, dependencies, location }: RunTarget,
  io: CliIo,
  signal: AbortSignal,
): Promise<void> {
  const { processes, clock } = dependencies;
  const { isAtWork, lookAtLives } = await import("../../run/coordinate/lives.ts");
  if (isAtWork(await lookAtLives(storage, { processes, clock, signal })) || signal.aborted) return;
  const note = `task ${task} is not done yet (tasks count from 0), and nobody works on this run`;
  const run = runArguments(location.directory, dependencies, io);
  io.stderr.write(`${note}: sluice resume ${run} continues it\n`);
}
