import { Command, CommanderError } from "commander";
import { isTraced, openCommandTelemetry } from "../api/open-telemetry.ts";
import { exitCodes } from "../foundation/error-table.ts";
import { asSluiceError, SluiceError } from "../foundation/errors.ts";
import { silentLogger, textLogger } from "../foundation/logger.ts";
import { quotedWord } from "../foundation/shown-path.ts";
import { nearest, nearestKey } from "../foundation/suggest.ts";
import type { Telemetry } from "../foundation/telemetry.ts";
import { type CommandEntry, commandTable } from "./command.ts";
import { type CliIo, type CommandCall, commandPath } from "./io.ts";
import { report } from "./report.ts";

interface ProgramOptions {
  version: string;
  commands?: readonly CommandEntry[];
}

/**
 * Runs one command line (without the program's name) and sets the exit code. Never throws: errors
 * are printed to stderr, as `error CODE: message` and a hint.
 *
 * @example
 * await runCommandLine(["plan", "-c", "job.yaml"], io, { version: "0.1.0" });
 */
export async function runCommandLine(
  args: readonly string[],
  given: CliIo,
  { version, commands = commandTable }: ProgramOptions,
): Promise<void> {
  const name = args.find((arg) => !arg.startsWith("-"));
  const tracing = commands.some((entry) => entry.name === name && entry.isTraced)
    ? tracingOf(given, name!)
    : undefined;
  const io = tracing?.io ?? given;
  const program = newProgram(io, version);
  const declareAll = async () => {
    const declared: Command[] = [];
    for (const { name, summary, load } of commands) {
      const command = new Command(name).summary(summary);
      await (await load()).register(command, io, { declareAll });
      declared.push(command);
    }
    return declared;
  };
  try {
    for (const entry of commands) {
      const command = program.command(entry.name).summary(entry.summary);
      command.description(`${entry.summary[0]!.toUpperCase()}${entry.summary.slice(1)}.`);
      if (entry.name === name || (name === "help" && args.includes(entry.name))) {
        await (await entry.load()).register(command, io, { args, declareAll });
      }
    }
    const names = commands.map((entry) => entry.name);
    if (name !== undefined && name !== "help" && !names.includes(name)) {
      throw isJobFile(name)
        ? new SluiceError("USAGE", `${name} is not a command`, {
            hint: `sluice run ${quotedWord(name)}`,
          })
        : unknownCommand(name, names, "see sluice --help");
    }
    if (tracing) program.hook("preAction", tracing.begin);
    await program.parseAsync(args, { from: "user" });
  } catch (thrown) {
    await finish(thrown, { program, args, declareAll }, io);
  } finally {
    await tracing?.end();
  }
}

/** The same surroundings with telemetry, from its beginning on; undefined if nobody asks for it. */
function tracingOf(given: CliIo, command: string) {
  if (!isTraced(given)) return undefined;
  let telemetry: Telemetry | undefined;
  // Not by spreading: access to standard input opens it.
  const io = Object.defineProperties({} as CliIo, {
    ...Object.getOwnPropertyDescriptors(given),
    telemetry: { get: () => telemetry, enumerable: true },
  });
  const write = (line: string) => void given.stderr.write(line);
  // What a worker would say, its coordinator has said.
  const logger = command === "worker" ? silentLogger : textLogger(write);
  return {
    io,
    async begin() {
      telemetry = await openCommandTelemetry(given, logger, write);
    },
    end: async () => await telemetry?.close(),
  };
}

function newProgram(io: CliIo, version: string): Command {
  return (
    new Command("sluice")
      .description("Pours a dataset through a model and gets every row back exactly once.")
      .version(version, "-V, --version", "print the version")
      .helpOption("-h, --help", "show help")
      .helpCommand("help [command]", "show help")
      // A command's own --version is not that of the program.
      .enablePositionalOptions()
      .showSuggestionAfterError(false)
      .exitOverride()
      .configureHelp({ helpWidth: Math.min(100, io.columns()) })
      .configureOutput({
        writeOut: (text) => void io.stdout.write(text),
        // Errors are printed once, in our own form.
        writeErr: () => {},
      })
  );
}

interface Call extends Required<CommandCall> {
  program: Command;
}

async function finish(thrown: unknown, call: Call, io: CliIo): Promise<void> {
  if (io.outputClosed.aborted && isClosedPipe(thrown)) return;
  if (!(thrown instanceof CommanderError)) {
    report(asSluiceError(thrown), io);
  } else if (call.args.length === 0) {
    io.stderr.write(call.program.helpInformation());
    io.setExitCode(exitCodes.usage);
  } else if (thrown.exitCode !== exitCodes.ok) {
    report(await usageError(thrown, call), io);
  }
}

const isJobFile = (word: string) => /\.(ya?ml|json)$/i.test(word);

function isClosedPipe(thrown: unknown): boolean {
  const name = thrown instanceof Error ? ((thrown as NodeJS.ErrnoException).code ?? "") : "";
  return ["EPIPE", "ERR_STREAM_DESTROYED", "ABORT_ERR"].includes(name);
}

/** The command of `args`, at any depth: `["model", "pull", "x"]` gives `pull` of `model`. */
function namedCommand(program: Command, args: readonly string[]): Command {
  let command = program;
  for (const arg of args) {
    if (arg.startsWith("-")) continue;
    const next = command.commands.find((known) => known.name() === arg);
    if (!next) break;
    command = next;
  }
  return command;
}

/** Flags of other servers, by which theirs are known. */
const flagsOfOthers: Readonly<Record<string, string>> = { host: "listen", port: "listen" };

/**
 * The most likely meant flag, by its whole name or by the last part of a dotted key.
 *
 * @example
 * nearestFlag("--temprature", ["--model.name", "--generation.temperature"]);
 */
function nearestFlag(flag: string, flags: readonly string[]): string | undefined {
  const bare = (text: string) => text.replace(/^-+/, "").replace(/=.*$/s, "");
  const names = flags.map(bare);
  const others = flagsOfOthers[bare(flag)];
  const found = others && names.includes(others) ? others : nearestKey(bare(flag), names, ".");
  return flags.find((known) => bare(known) === found);
}

function meant(suggestion: string | undefined): string {
  return suggestion === undefined ? "" : `; did you mean ${suggestion}?`;
}

/** Commander's error about `args`, as an error of ours with the most similar name. */
async function usageError(
  error: CommanderError,
  { program, args, declareAll }: Call,
): Promise<SluiceError> {
  const command = namedCommand(program, args);
  const hint = `see ${commandPath(command)} --help`;
  const quoted = /'([^']*)'/.exec(error.message)?.[1] ?? "";
  if (error.code === "commander.unknownOption") {
    const flags = await flagsOf(command, declareAll);
    return new SluiceError("OPTION_UNKNOWN", `${quoted}${meant(nearestFlag(quoted, flags))}`, {
      hint,
    });
  }
  const names = command.commands.map((known) => known.name());
  const stranger = args.find((arg) => !arg.startsWith("-"));
  if (error.code === "commander.unknownCommand") {
    return unknownCommand(quoted || (stranger ?? ""), names, hint);
  }
  if (error.code === "commander.help" && command.commands.length > 0) {
    return new SluiceError("USAGE", `name one of ${names.join(", ")}`, { hint });
  }
  return new SluiceError("USAGE", error.message.replace(/^error: /, ""), { hint });
}

/** Every long flag of a command, including those without an option. */
async function flagsOf(command: Command, declareAll: Call["declareAll"]): Promise<string[]> {
  const [, ...path] = commandPath(command).split(" ");
  let known: Command | undefined;
  let below: readonly Command[] = await declareAll();
  for (const name of path) {
    known = below.find((each) => each.name() === name);
    below = known?.commands ?? [];
  }
  return (known ?? command).options.flatMap(({ long }) => (long ? [long] : []));
}

function unknownCommand(word: string, names: readonly string[], hint: string): SluiceError {
  return new SluiceError("USAGE", `unknown command ${word}${meant(nearest(word, names))}`, {
    hint,
  });
}
