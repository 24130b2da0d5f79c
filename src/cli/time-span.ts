import { SluiceError } from "../foundation/errors.ts";

const unitSeconds = { d: 86_400, h: 3600, m: 60, s: 1 } as const;
const form =
  /^(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?$/;

/**
 * Reads a length of time as people write it: `2h`, `1h30m`, `1.5d`, `90s`.
 *
 * @param flag the option that it is the value of, for the error.
 * @returns seconds, above 0.
 * @throws SluiceError `USAGE`.
 */
export function secondsOf(flag: string, text: string): number {
  const [, ...parts] = form.exec(text) ?? [];
  const units = Object.values(unitSeconds);
  const seconds = parts.reduce((sum, part, at) => sum + Number(part ?? 0) * units[at]!, 0);
  if (seconds > 0) return seconds;
  throw new SluiceError(
    "USAGE",
    `${flag} ${text} is not a length of time such as 2h, 90m or 1h30m`,
  );
}
