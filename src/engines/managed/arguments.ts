import { SluiceError } from "../../foundation/errors.ts";

/** An argument that Sluice gives where the job does not. */
export interface DefaultArgument {
  /** The flag, and the other names that it has; the first is what is given. */
  flags: readonly [string, ...string[]];
  /** Undefined: the argument is left out. */
  value: string | number | undefined;
}

/**
 * The defaults that `args` do not set themselves, followed by `args`.
 *
 * @example
 * withDefaults(["-c=1024"], [{ flags: ["-c", "--ctx-size"], value: 2048 }]); // ["-c=1024"]
 */
export function withDefaults(
  args: readonly string[],
  defaults: readonly DefaultArgument[],
): string[] {
  const given = defaults.filter(({ flags, value }) => value !== undefined && !names(args, flags));
  return [...given.flatMap(({ flags, value }) => [flags[0], String(value)]), ...args];
}

/** The value that `args` give a flag last, as `--flag value` or `--flag=value`. */
export function argumentValue(
  args: readonly string[],
  flags: readonly string[],
): string | undefined {
  const at = args.findLastIndex((arg) => flags.includes(flagOf(arg)));
  const arg = args[at];
  if (arg === undefined) return undefined;
  return arg.includes("=") ? arg.slice(arg.indexOf("=") + 1) : args[at + 1];
}

/**
 * Refuses arguments that are Sluice's own to give.
 *
 * @param reserved flags, each with what to do instead.
 * @throws SluiceError `JOB_INVALID`.
 */
export function refuseArguments(
  args: readonly string[],
  reserved: Readonly<Record<string, string>>,
): void {
  for (const arg of args) {
    const flag = flagOf(arg);
    if (!Object.hasOwn(reserved, flag)) continue;
    const field = "model.args";
    throw new SluiceError("JOB_INVALID", `${flag} is given by Sluice`, {
      field,
      hint: reserved[flag]!,
    });
  }
}

function names(args: readonly string[], flags: readonly string[]): boolean {
  return args.some((arg) => flags.includes(flagOf(arg)));
}

/** As it is written in manuals: vLLM takes underscores for dashes. */
function flagOf(arg: string): string {
  const [flag = ""] = arg.split("=", 1);
  return flag.startsWith("--") ? flag.replaceAll("_", "-") : flag;
}
