import type { Command } from "commander";
import { backendContext } from "../api/backend-context.ts";
import type { StartOptions } from "../api/start-run.ts";
import { type OpenBackends, openBackends } from "../backends/registry.ts";
import { exitCodes } from "../foundation/error-table.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { Logger } from "../foundation/logger.ts";
import { locateRun } from "../run/directory/locate.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import type { RunResult } from "../run/status/run-result.ts";
import { openProgress, type Progress } from "../terminal/progress.ts";
import { type CliIo, write, writeJson } from "./io.ts";
import { report } from "./report.ts";
import { openTarget, type RunTarget, runArguments, withOwnStores } from "./run-target.ts";
import type { Interruption } from "./until-signal.ts";

/** Ctrl-C in a call whose workers a scheduler started. */
export function interruptionOf({ name }: { name: string }, logger: Logger): Interruption {
  const cancel = (stop: AbortController) => {
    logger.log("info", `stopping: the workers at ${name} write what they have and end`);
    stop.abort(new SluiceError("RUN_CANCELED"));
  };
  return {
    question: `stop the workers at ${name} as well?`,
    stop: cancel,
    leave: (stop) => stop.abort(new SluiceError("RUN_DETACHED")),
    interrupt: cancel,
  };
}

/** How a call of `run`, `resume` or `retry` ended; the code is that of a signal. */
export interface EndedCall {
  result: RunResult;
  exitCode: number | undefined;
}

/** A run that a command carries on, with what every such call opens. */
export interface OpenedCall {
  target: Awaited<ReturnType<typeof withOwnStores>>;
  progress: Progress;
  backends: OpenBackends;
}

/** Opens a run to carry it on, and closes everything at the end. */
export async function withOpenedRun<Result>(
  run: string,
  options: { json?: boolean; quiet?: boolean },
  io: CliIo,
  carryOn: (call: OpenedCall) => Promise<Result>,
): Promise<Result> {
  const progress = openProgress(options, io);
  const target = await withOwnStores(await openTarget(run, io, progress.logger), io);
  const backends = openBackends(backendContext(io, progress.logger));
  try {
    return await carryOn({ target, progress, backends });
  } finally {
    progress.close();
    backends.close();
  }
}

/** The flags of every command that continues a run. */
export interface CallFlags {
  set?: readonly string[];
  install: boolean;
  json?: boolean;
  quiet?: boolean;
}

/** Collects the values of a flag that is given several times. */
export const collect = (text: string, before: readonly string[] = []) => [...before, text];

export function withCallFlags(command: Command, setDescription: string): Command {
  return command
    .option("--set <key=value>", setDescription, collect)
    .option("--no-install", "fetch neither engine packages nor models")
    .option("--json", "progress and the summary as JSON lines")
    .option("--quiet", "no progress");
}

/**
 * The common part of every command that carries out a run; it listens to signals from its start.
 */
export function startOptions(
  call: Pick<StartOptions, "backendOf" | "dependencies" | "signal" | "install" | "isDetached">,
  { logger, onEvent, onStep }: Progress,
  listen: () => void,
): StartOptions {
  const { backendOf, dependencies, signal, install, isDetached = false } = call;
  return {
    ...{ isDetached, backendOf, dependencies, signal, install, logger, onStep },
    onEvent(event) {
      if (event.type === "run-start") listen();
      onEvent(event);
    },
  };
}

type EndFlags = Pick<CallFlags, "json" | "quiet">;

/**
 * Prints how a call ended: on a terminal in words, elsewhere as the summary in a line of JSON, the
 * last one of stdout. Sets the exit code.
 */
export async function endCall(
  { result, exitCode }: EndedCall,
  { dependencies }: Pick<RunTarget, "dependencies">,
  options: EndFlags,
  io: CliIo,
): Promise<void> {
  const { summary, error, wasSealed } = result;
  if (error?.code === "RUN_DETACHED")
    return await tellDetached(summary, exitCode, { dependencies, ...options }, io);
  if (error) report(error, io);
  if (io.isOutputTerminal && !options.json) {
    const { summaryLines, summaryFacts } = await import("./summary-view.ts");
    const facts = await summaryFacts(result, dependencies, io);
    await write(io, `${summaryLines(summary, facts, io.columns()).join("\n")}\n`);
  } else {
    if (!options.json) tellPlace(summary, wasSealed, options, io);
    else if (wasSealed) dependencies.logger.log("info", nothingToDo(summary));
    await writeJson(io, summary);
  }
  io.setExitCode(exitCode ?? result.exitCode);
}

/** Says how to come back to a run that goes on without this process. */
async function tellDetached(
  { output, run_id }: RunResult["summary"],
  exitCode: number | undefined,
  { dependencies, json, quiet }: Pick<RunTarget, "dependencies"> & EndFlags,
  io: CliIo,
): Promise<void> {
  const run = runArguments(output, dependencies, io);
  const commands = [
    [`sluice attach ${run}`, "shows it live, to its end"],
    [`sluice status ${run}`, "shows its state"],
    [`sluice cancel ${run}`, "stops it"],
  ];
  const width = Math.max(...commands.map(([command]) => command!.length));
  const lines = commands.map(([command, what]) => `  ${command!.padEnd(width)}  ${what}\n`);
  const { readSubmissions } = await import("../run/submissions.ts");
  const storage = runStorage(dependencies.openStorage(locateRun(output).directory));
  const { scheduler, id } = (await readSubmissions(storage)).at(-1) ?? {};
  if (io.isOutputTerminal && !json) {
    await write(io, `run ${run_id} continues as ${scheduler} ${id}\n${lines.join("")}`);
  } else {
    // With --json, stderr is lines of JSON as well.
    if (!json && !quiet) io.stderr.write(lines.join(""));
    await writeJson(io, { run_id, output, scheduler, submission: id });
  }
  io.setExitCode(exitCode ?? exitCodes.ok);
}

function tellPlace(
  summary: RunResult["summary"],
  wasSealed: boolean,
  { quiet }: { quiet?: boolean },
  io: CliIo,
): void {
  if (wasSealed) io.stderr.write(`${nothingToDo(summary)}\n`);
  else if (summary.sealed && !quiet) io.stderr.write(`results: ${summary.output}\n`);
}

const nothingToDo = ({ output }: RunResult["summary"]) =>
  `this run is finished, there is nothing to do: ${output}`;
