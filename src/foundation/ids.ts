import { createHash } from "node:crypto";
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

/** A new random UUID (version 4). */
export function randomUuid(random: Random): string {
  for (let at = 0; at < 16; at += 4) scratch.writeUInt32LE(randomInteger(random, 2 ** 32), at);
  return uuidOf(scratch, 4);
}

const scratch = Buffer.alloc(16);

/**
 * The UUID of a name (version 5): the same name below the same UUID always has the same one.
 *
 * @example
 * nameUuid("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "www.example.com");
 * // "2ed6657d-e927-568b-95e1-2665a8aea6a2"
 */
export function nameUuid(below: string, name: string): string {
  const space = Buffer.from(below.replaceAll("-", ""), "hex");
  const digest = createHash("sha1").update(space).update(name).digest();
  return uuidOf(digest.subarray(0, 16), 5);
}

function uuidOf(bytes: Buffer, version: number): string {
  bytes[6] = (bytes[6]! & 0x0f) | (version << 4);
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  const [low, middle] = [hex.slice(0, 8), hex.slice(8, 12)];
  return `${low}-${middle}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
