import { SluiceError } from "../../foundation/errors.ts";

/** Sluice's value for an argument that the job does not set. */
export interface DefaultArgument {
  /** The flag and its other names; the first one is used. */
  flags: readonly [string, ...string[]];
  /** Undefined: the argument is left out. */
  value: string | number | undefined;
}

/**
 * The defaults that `args` do not set, followed by `args`.
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

/** The last value of a flag in `args`, as `--flag value` or `--flag=value`. */
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
 * Refuses arguments that only Sluice may set.
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

/** As manuals write it: vLLM takes underscores for dashes. */
function flagOf(arg: string): string {
  const [flag = ""] = arg.split("=", 1);
  return flag.startsWith("--") ? flag.replaceAll("_", "-") : flag;
}
