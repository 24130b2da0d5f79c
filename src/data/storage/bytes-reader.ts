import type { RandomReader } from "./storage.ts";

/** A reader of bytes that are in memory. */
export function bytesReader(bytes: Uint8Array): RandomReader {
  return {
    bytes: bytes.length,
    read: async (offset, length) => bytes.subarray(offset, offset + length),
    close: async () => {},
  };
}
