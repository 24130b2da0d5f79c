import type { Command, CommanderError } from "commander";
import { SluiceError } from "../foundation/errors.ts";
import { nearest } from "../foundation/suggest.ts";
import { nearestKey } from "../run/job/nearest-key.ts";

/**
 * The command that `args` names, at any depth: `["model", "pull", "x"]` gives `pull` of `model`.
 */
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

/**
 * The flag a person most likely meant, by its whole name or by the last part of a dotted key.
 *
 * @example
 * nearestFlag("--temprature", ["--model.name", "--generation.temperature"]);
 */
export function nearestFlag(flag: string, flags: readonly string[]): string | undefined {
  const bare = (text: string) => text.replace(/^-+/, "").replace(/=.*$/s, "");
  const found = nearestKey(bare(flag), flags.map(bare), ".");
  return flags.find((known) => bare(known) === found);
}

function meant(suggestion: string | undefined): string {
  return suggestion === undefined ? "" : `; did you mean ${suggestion}?`;
}

/** What commander found wrong with `args`, as an error of ours that names the nearest match. */
export function usageError(
  error: CommanderError,
  program: Command,
  args: readonly string[],
): SluiceError {
  const command = namedCommand(program, args);
  const hint = `see ${commandPath(command)} --help`;
  const quoted = /'([^']*)'/.exec(error.message)?.[1] ?? "";
  if (error.code === "commander.unknownOption") {
    const flags = command.options.flatMap((option) => (option.long ? [option.long] : []));
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

/** The error for a command that does not exist. */
export function unknownCommand(word: string, names: readonly string[], hint: string): SluiceError {
  return new SluiceError("USAGE", `unknown command ${word}${meant(nearest(word, names))}`, {
    hint,
  });
}

/** The words that call a command, as `sluice model pull`. */
function commandPath(command: Command): string {
  const names: string[] = [];
  for (let at: Command | null = command; at; at = at.parent) names.unshift(at.name());
  return names.join(" ");
}
