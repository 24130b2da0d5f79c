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
export const commandTable: readonly CommandEntry[] = Object.freeze([
  {
    name: "run",
    summary: "run a job, or continue it",
    isTraced: true,
    load: () => import("./commands/run.ts"),
  },
  {
    name: "run-batch",
    summary: "answer the requests of an OpenAI batch file",
    isTraced: true,
    load: () => import("./commands/run-batch.ts"),
  },
  {
    name: "inference",
    summary: "run a job like Axolotl's command with that name",
    isTraced: true,
    load: () => import("./commands/inference.ts"),
  },
  {
    name: "plan",
    summary: "show what a job would do, without doing it",
    load: () => import("./commands/plan.ts"),
  },
  {
    name: "resume",
    summary: "continue the run in a folder, by its own job",
    isTraced: true,
    load: () => import("./commands/resume.ts"),
  },
  {
    name: "attach",
    summary: "follow a run of other processes to its end",
    load: () => import("./commands/attach.ts"),
  },
  {
    name: "render",
    summary: "print what a job would send to its scheduler",
    load: () => import("./commands/render.ts"),
  },
  {
    name: "logs",
    summary: "print what the workers of a scheduler wrote",
    load: () => import("./commands/logs.ts"),
  },
  {
    name: "fleet",
    summary: "run many commands, each a task with its state, result code and log",
    isTraced: true,
    load: () => import("./commands/fleet.ts"),
  },
  {
    name: "serve",
    summary: "serve models over HTTP",
    isTraced: true,
    load: () => import("./commands/serve.ts"),
  },
  {
    name: "archive",
    summary: "make a model archive for serve",
    load: () => import("./commands/archive.ts"),
  },
  {
    name: "status",
    summary: "show the state of a run",
    load: () => import("./commands/status.ts"),
  },
  {
    name: "runs",
    summary: "list the runs below a folder or in a bucket",
    load: () => import("./commands/runs.ts"),
  },
  {
    name: "results",
    summary: "print the results of a run in input order",
    load: () => import("./commands/results.ts"),
  },
  {
    name: "verify",
    summary: "recompute everything that a run states, from its files",
    load: () => import("./commands/verify.ts"),
  },
  {
    name: "retry",
    summary: "send the failed rows of a run again",
    isTraced: true,
    load: () => import("./commands/retry.ts"),
  },
  {
    name: "cancel",
    summary: "stop a run, wherever it is running",
    load: () => import("./commands/cancel.ts"),
  },
  {
    name: "worker",
    summary: "work on tasks of a planned run",
    isTraced: true,
    load: () => import("./commands/worker.ts"),
  },
  {
    name: "seal",
    summary: "seal a run whose tasks are all done",
    load: () => import("./commands/seal.ts"),
  },
  {
    name: "clean",
    summary: "remove what a sealed run no longer needs",
    load: () => import("./commands/clean.ts"),
  },
  {
    name: "upload",
    summary: "copy a folder into a bucket",
    load: () => import("./commands/upload.ts"),
  },
  {
    name: "download",
    summary: "copy files of a bucket or of the hub into a folder",
    load: () => import("./commands/download.ts"),
  },
  {
    name: "ls",
    summary: "list the files below a place",
    load: () => import("./commands/ls.ts"),
  },
  {
    name: "shard",
    summary: "cut inputs into equal chunks, with a list for each worker",
    load: () => import("./commands/shard.ts"),
  },
  {
    name: "init",
    summary: "write a first job and sample data",
    load: () => import("./commands/init.ts"),
  },
  {
    name: "image",
    summary: "build the container image of this Sluice",
    load: () => import("./commands/image.ts"),
  },
  {
    name: "model",
    summary: "fetch, list and check models",
    load: () => import("./commands/model.ts"),
  },
  {
    name: "engine",
    summary: "add and remove engine packages",
    load: () => import("./commands/engine.ts"),
  },
  {
    name: "schema",
    summary: "print the JSON Schema of the job file",
    load: () => import("./commands/schema.ts"),
  },
  {
    name: "completion",
    summary: "print the completion script for bash, zsh or fish",
    load: () => import("./commands/completion.ts"),
  },
  {
    name: "doctor",
    summary: "check what works here and what is missing",
    load: () => import("./commands/doctor.ts"),
  },
]);
