import type { Command } from "commander";
import type { StartOptions } from "../api/start-run.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import type { RunResult } from "../run/run-job.ts";
import type { Progress } from "../terminal/progress.ts";
import { type CliIo, write } from "./io.ts";
import { report } from "./report.ts";

/** How a call of `run`, `resume` or `retry` ended; the code is that of a signal. */
export interface EndedCall {
  result: RunResult;
  exitCode: number | undefined;
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

/** Adds the flags of a command that continues a run. */
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
  call: Pick<StartOptions, "backendOf" | "dependencies" | "signal" | "install">,
  { logger, onEvent, onStep }: Progress,
  listen: () => void,
): StartOptions {
  const { backendOf, dependencies, signal, install } = call;
  return {
    ...{ backendOf, dependencies, signal, install, logger, onStep },
    onEvent(event) {
      if (event.type === "run-start") listen();
      onEvent(event);
    },
  };
}

/**
 * Prints how a call ended: on a terminal in words, elsewhere as the summary in a line of JSON, the
 * last one of stdout. Sets the exit code.
 */
export async function endCall(
  { result, exitCode }: EndedCall,
  dependencies: RunDependencies,
  options: { json?: boolean; quiet?: boolean },
  io: CliIo,
): Promise<void> {
  const { summary, error, wasSealed } = result;
  if (error) report(error, io);
  if (io.isOutputTerminal && !options.json) {
    const { summaryLines, summaryFacts } = await import("./summary-view.ts");
    const facts = await summaryFacts(result, dependencies, io);
    await write(io, `${summaryLines(summary, facts, io.columns()).join("\n")}\n`);
  } else {
    if (!options.json) tellPlace(summary, wasSealed, options, io);
    else if (wasSealed) dependencies.logger.log("info", nothingToDo(summary));
    await write(io, `${JSON.stringify(summary)}\n`);
  }
  io.setExitCode(exitCode ?? result.exitCode);
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
