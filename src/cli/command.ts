import type { Command } from "commander";
import type { CliIo, CommandCall } from "./io.ts";

/**
 * What each file of `commands/` exports. `register` declares the arguments, options and action of a
 * command with a name and a summary; it may load what it needs first.
 *
 * @example
 * export function register(command: Command, io: CliIo): void {
 *   command.argument("<dir>", "the run").action(async (directory: string) => {
 *     await write(io, `${directory}\n`);
 *   });
 * }
 */
export interface CommandModule {
  register(command: Command, io: CliIo, call: CommandCall): void | Promise<void>;
}

/** A command before its file is loaded. */
export interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  /** Its work has spans. */
  readonly isTraced?: boolean;
  load(): Promise<CommandModule>;
}

/** Every command. Only the called one is loaded, so that a small job starts at once. */
export const commandTable: readonly CommandEntry[] = entriesOf([
  ["run", "run a job, or continue it", () => import("./commands/run.ts"), "traced"],
  [
    "run-batch",
    "answer the requests of an OpenAI batch file",
    () => import("./commands/run-batch.ts"),
    "traced",
  ],
  [
    "inference",
    "run a job like Axolotl's command with that name",
    () => import("./commands/inference.ts"),
    "traced",
  ],
  ["plan", "show what a job would do, without doing it", () => import("./commands/plan.ts")],
  [
    "resume",
    "continue the run in a folder, by its own job",
    () => import("./commands/resume.ts"),
    "traced",
  ],
  ["attach", "follow a run of other processes to its end", () => import("./commands/attach.ts")],
  ["render", "print what a job would send to its scheduler", () => import("./commands/render.ts")],
  ["logs", "print what the workers of a scheduler wrote", () => import("./commands/logs.ts")],
  [
    "fleet",
    "run many commands, each a task with its state, result code and log",
    () => import("./commands/fleet.ts"),
    "traced",
  ],
  ["serve", "serve models over HTTP", () => import("./commands/serve.ts"), "traced"],
  ["archive", "make a model archive for serve", () => import("./commands/archive.ts")],
  ["status", "show the state of a run", () => import("./commands/status.ts")],
  ["runs", "list the runs below a folder or in a bucket", () => import("./commands/runs.ts")],
  ["results", "print the results of a run in input order", () => import("./commands/results.ts")],
  [
    "verify",
    "recompute everything that a run states, from its files",
    () => import("./commands/verify.ts"),
  ],
  ["retry", "send the failed rows of a run again", () => import("./commands/retry.ts"), "traced"],
  ["cancel", "stop a run, wherever it is running", () => import("./commands/cancel.ts")],
  ["worker", "work on tasks of a planned run", () => import("./commands/worker.ts"), "traced"],
  ["seal", "seal a run whose tasks are all done", () => import("./commands/seal.ts")],
  ["clean", "remove what a sealed run no longer needs", () => import("./commands/clean.ts")],
  ["upload", "copy a folder into a bucket", () => import("./commands/upload.ts")],
  [
    "download",
    "copy files of a bucket or of the hub into a folder",
    () => import("./commands/download.ts"),
  ],
  ["ls", "list the files below a place", () => import("./commands/ls.ts")],
  [
    "shard",
    "cut inputs into equal chunks, with a list for each worker",
    () => import("./commands/shard.ts"),
  ],
  ["init", "write a first job and sample data", () => import("./commands/init.ts")],
  ["image", "build the container image of this Sluice", () => import("./commands/image.ts")],
  ["model", "fetch, list and check models", () => import("./commands/model.ts")],
  ["engine", "add and remove engine packages", () => import("./commands/engine.ts")],
  ["schema", "print the JSON Schema of the job file", () => import("./commands/schema.ts")],
  [
    "completion",
    "print the completion script for bash, zsh or fish",
    () => import("./commands/completion.ts"),
  ],
  ["doctor", "check what works here and what is missing", () => import("./commands/doctor.ts")],
]);

function entriesOf(
  rows: readonly [name: string, summary: string, load: CommandEntry["load"], traced?: "traced"][],
): CommandEntry[] {
  return rows.map(([name, summary, load, traced]) => ({
    ...{ name, summary, load },
    isTraced: traced !== undefined,
  }));
}
