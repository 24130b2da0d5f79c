import type { Command } from "commander";
import { type CanceledRun, cancelAll, openScheduled } from "../../api/scheduled-run.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { RunLives } from "../../run/coordinate/lives.ts";
import { counted } from "../../terminal/quantities.ts";
import { type CliIo, write } from "../io.ts";
import { openTarget, withRun } from "../run-target.ts";

const waitMs = 15_000;

/** `sluice cancel DIR`: stops a run, wherever it is running. */
export function register(command: Command, given: CliIo): void {
  const io = withRun(command, given);
  command
    .option("--no-wait", `do not wait (up to ${waitMs / 1000} s) until it has stopped`)
    .action((run: string, options: { wait: boolean }) => cancel(run, options, io));
}

async function cancel(run: string, options: { wait: boolean }, io: CliIo): Promise<void> {
  const { location, dependencies } = await openTarget(run, io);
  const opened = await openScheduled(location, dependencies, io);
  const stop = new AbortController();
  const ignore = io.onSignal(() => stop.abort());
  try {
    const canceled = await cancelAll(opened, {
      waitMs: options.wait ? waitMs : 0,
      onAsked: (lives) => void io.stderr.write(`${whoIsAsked(lives)}\n`),
      signal: stop.signal,
    });
    const words = {
      idle: "nobody is working on this run: there is nothing to cancel",
      asked: "requested; sluice status says when it has stopped",
      ended: "stopped: what is done is kept, and the same command continues it",
      pending: "it has not stopped yet; sluice status says when it has",
    };
    tellOthers(canceled, opened.backend, io);
    await write(io, `${words[canceled.end]}\n`);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    ignore();
  }
}

/** Tells what a scheduler and a provider had, or why they could not be told to stop. */
export function tellOthers({ placed, batches }: CanceledRun, backend: string, io: CliIo): void {
  if (placed instanceof SluiceError) {
    io.stderr.write(`workers that wait at ${backend} may still start: ${placed.message}\n`);
  } else if (placed > 0) {
    io.stderr.write(`${counted(placed, "worker")} canceled at ${backend}\n`);
  }
  if (batches instanceof SluiceError) {
    io.stderr.write(`batches at the provider may still be carried out: ${batches.message}\n`);
    io.stderr.write(`  hint: ${batches.hint}\n`);
  } else if (batches > 0) {
    io.stderr.write(`${counted(batches, "batch", "batches")} cancelled at the provider\n`);
  }
}

function whoIsAsked({ coordinator, workers }: RunLives): string {
  const atWork = workers.filter(({ lives }) => lives).length;
  const { record, lives } = coordinator ?? {};
  const who = lives ? `process ${record!.pid} on ${record!.host}` : counted(atWork, "worker");
  return `asking ${who} to stop: no more rows are sent, rows in flight are finished`;
}
