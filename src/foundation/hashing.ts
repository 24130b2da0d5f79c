import { createHash, type Hash, hash } from "node:crypto";
import { canonicalJson } from "./json.ts";

/** SHA-256 of bytes or of a string's UTF-8, as 64 hex digits. */
export function sha256Hex(data: string | Uint8Array): string {
  return hash("sha256", data, "hex");
}

/** SHA-256 of a value's canonical JSON, as 64 hex digits. */
export function digestOf(value: unknown): string {
  return sha256Hex(canonicalJson(value));
}

/** A SHA-256 over a stream: `update(bytes)` for each piece, then `digest("hex")`. */
export function sha256Stream(): Hash {
  return createHash("sha256");
}

/**
 * A number that follows from a text, for keys and seeds (FNV-1a, 32 bits).
 *
 * @param before that of a text before this one: the result is the number of both.
 */
export function textHash(text: string, start = 0, end = text.length, before = 0x811c9dc5): number {
  let hash = before;
  for (let at = start; at < end; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return hash >>> 0;
}
