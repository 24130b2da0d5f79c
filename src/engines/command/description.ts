import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import type { EngineContext } from "../engine.ts";
import type { EngineDescription } from "../engine-description.ts";
import { findProgram } from "../find-program.ts";
import { hashFiles } from "../models/part-file.ts";
import { fullSupport } from "../parameter-support.ts";
import { withReplicas } from "../replicas.ts";
import { refuseSecrets } from "../secrets.ts";
import type { CommandModelOptions } from "./options.ts";

/** A path starts from the working directory; a name is searched on PATH. */
async function assertCommand(
  { command, workingDirectory = "." }: CommandModelOptions,
  { environment }: Pick<EngineContext, "environment">,
): Promise<void> {
  const program = command.includes("/") ? resolve(workingDirectory, command) : command;
  await findProgram(program, environment, "install it, or give its path in model.command");
}

export const commandDescription: EngineDescription<CommandModelOptions> = {
  open: async (options, context) => (await import("./engine.ts")).openCommand(options, context),
  // Everything else is passed to the program, which reports what it lacks.
  support: () => ({
    ...fullSupport,
    numBeams: true,
    lengthPenalty: true,
    earlyStopping: true,
    logprobs: "leave it out: a program tells no log-probabilities",
  }),
  cutsNone: "leave onTooLong at fail: the program counts the tokens, and knows of no cutting",
  keepsPrefixes: false,
  executes: ({ command, args }) => [[command, ...args].join(" ")],
  ...withReplicas,
  withAbsolutePaths: ({ workingDirectory, ...options }, absolute) => ({
    ...options,
    workingDirectory:
      workingDirectory === undefined
        ? absolute(".", "model", "command")
        : absolute(workingDirectory, "model", "workingDirectory"),
  }),
  assertEnvironment({ command, args }, environment) {
    refuseSecrets([command], "model.command", environment);
    refuseSecrets(args.map(String), "model.args", environment);
  },
  prepare: assertCommand,
  check: assertCommand,
  async identified(options) {
    try {
      const filesSha256 = await namedFilesSha256(options);
      return filesSha256 === undefined ? options : { ...options, filesSha256 };
    } catch (cause) {
      const detail = (cause as Error).message;
      throw new SluiceError("PREDICTOR_UNUSABLE", detail, { field: "model.args", cause });
    }
  },
};

/**
 * One digest of the files in a command line, such as a script; undefined if there are none. Folders
 * do not count.
 *
 * @throws Error of the file system if one exists and cannot be read.
 */
async function namedFilesSha256({
  command,
  args,
  workingDirectory = ".",
}: CommandModelOptions): Promise<string | undefined> {
  const named = command.includes("/") ? [command, ...args] : args;
  const files: string[] = [];
  for (const path of named.map((each) => resolve(workingDirectory, String(each)))) {
    const found = await stat(path).catch(() => undefined);
    if (found?.isFile()) files.push(path);
  }
  return files.length === 0 ? undefined : (await hashFiles(files)).sha256;
}
