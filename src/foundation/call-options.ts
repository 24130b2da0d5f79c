import { SluiceError } from "./errors.ts";
import { nearest, shown } from "./suggest.ts";

/** A mark for each option of a call: one that is added to the type cannot be forgotten here. */
export type OptionNames<Options> = { readonly [Name in keyof Options]-?: boolean };

/**
 * Refuses, for programs in JavaScript, what TypeScript refuses: anything but an object as options,
 * and names that the call does not have and would ignore.
 *
 * @param call the name of the call, for the message.
 * @param page the page that lists its options.
 * @throws SluiceError `USAGE`; `OPTION_UNKNOWN`, which names the nearest option.
 * @example
 * assertOptions("run", { overwrit: true }, { overwrite: true, fork: true });
 * // OPTION_UNKNOWN: run: overwrit; did you mean overwrite?
 */
export function assertOptions<Options extends object>(
  call: string,
  options: Options,
  names: OptionNames<Options>,
  page = "docs/typescript.md",
): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new SluiceError("USAGE", `${call}: the options are not an object: ${shown(options)}`, {
      hint: `see ${page}`,
    });
  }
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(names, name)) continue;
    const known = Object.keys(names);
    const meant = nearest(name, known);
    const instead = meant ? `did you mean ${meant}?` : `it has ${known.join(", ")}`;
    throw new SluiceError("OPTION_UNKNOWN", `${call}: ${name}; ${instead}`, {
      hint: `see ${page}`,
    });
  }
}
