import { isUtf8 } from "node:buffer";

/** Bytes that should be text and are not UTF-8. */
export class BrokenText {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** The text of UTF-8 bytes; a `BrokenText` where they are none. */
export function textOf(bytes: Uint8Array): string | BrokenText {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString("utf8");
  // What cannot be decoded becomes U+FFFD, which may also be written as such.
  if (!text.includes("\uFFFD") || isUtf8(buffer)) return text;
  return new BrokenText(bytes);
}

/** Throws what was found in place of text: the row is at fault, not the file. */
export function unreadableText(value: unknown): never {
  throw value;
}
