import { isUtf8 } from "node:buffer";

/** Bytes that should be text and are not UTF-8. */
export class BrokenText {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** The text of UTF-8 bytes; a `BrokenText` if they are not UTF-8. */
export function textOf(bytes: Uint8Array): string | BrokenText {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString("utf8");
  // Invalid bytes are decoded to U+FFFD, but a text may contain U+FFFD itself.
  if (!text.includes("\uFFFD") || isUtf8(buffer)) return text;
  return new BrokenText(bytes);
}

/** Throws a value that replaced a text: an error of the row, not of the file. */
export function unreadableText(value: unknown): never {
  throw value;
}
