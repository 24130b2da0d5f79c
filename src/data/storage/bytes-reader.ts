import type { RandomReader } from "./storage.ts";

export function bytesReader(bytes: Uint8Array): RandomReader {
  return {
    bytes: bytes.length,
    read: async (offset, length) => bytes.subarray(offset, offset + length),
    close: async () => {},
  };
}
