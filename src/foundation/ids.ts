import type { Clock } from "./clock.ts";
import { type Random, randomInteger } from "./random.ts";

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

function base32(value: number, width: number): string {
  let text = "";
  for (let rest = value; text.length < width; rest = Math.floor(rest / 32)) {
    text = alphabet[rest % 32] + text;
  }
  return text;
}

/**
 * A new id that sorts by the time it was made: 9 characters of milliseconds and 6 random ones, all
 * in `[0-9a-z]`. It names attempts and workers.
 */
export function sortableId(clock: Clock, random: Random): string {
  return base32(clock.now(), 9) + base32(randomInteger(random, 32 ** 6), 6);
}

/**
 * The id of a run: its start in UTC to the second, as `20230801T130712Z`.
 *
 * @example
 * runIdAt(Date.UTC(2023, 7, 1, 13, 7, 12)); // "20230801T130712Z"
 */
export function runIdAt(epochMs: number): string {
  return `${new Date(epochMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, "")}Z`;
}
