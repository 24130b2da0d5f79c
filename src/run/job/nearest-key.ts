import { nearest } from "../../foundation/suggest.ts";

/**
 * The key a person most likely meant among keys of several levels. The last level counts first,
 * since it is the one that people remember: `temprature` means `generation.temperature`.
 *
 * @param separator what stands between levels: `.` in keys, `__` in variables.
 * @example
 * nearestKey("SLUICE_SEED", ["SLUICE_NAME", "SLUICE_GENERATION__SEED"], "__");
 */
export function nearestKey(
  word: string,
  keys: readonly string[],
  separator: "." | "__",
): string | undefined {
  const last = (key: string) =>
    key
      .replace(/^SLUICE_/, "")
      .split(separator)
      .at(-1)!;
  const exact = keys.find((key) => last(key).toLowerCase() === last(word).toLowerCase());
  if (exact !== undefined) return exact;
  const whole = nearest(word, keys);
  if (whole !== undefined) return whole;
  const part = nearest(last(word), keys.map(last));
  return keys.find((key) => last(key) === part);
}
