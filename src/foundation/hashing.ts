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
