import type { Storage } from "../../data/storage/storage.ts";
import { sha256Hex } from "../../foundation/hashing.ts";

/** A file of a run as its plan, commits and manifest name it. */
export interface FileRecord {
  path: string;
  sha256: string;
  bytes: number;
}

export function fileRecord(path: string, content: Uint8Array): FileRecord {
  return { path, sha256: sha256Hex(content), bytes: content.length };
}

export async function storeFile(
  storage: Storage,
  path: string,
  content: Uint8Array,
): Promise<FileRecord> {
  await storage.replace(path, content);
  return fileRecord(path, content);
}
