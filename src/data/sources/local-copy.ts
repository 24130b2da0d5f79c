import { mkdtemp, open, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { shownPath } from "../../foundation/shown-path.ts";
import type { OpenFile } from "../open-files.ts";
import { storeError } from "../storage/local-errors.ts";
import type { RandomReader } from "../storage/storage.ts";

/** Characters of the name of a local copy. */
const maxCopyNameChars = 60;

/** A local file with the content of a remote one. */
export interface LocalCopy {
  /** Absolute path; it ends with the remote file's name. */
  path: string;
  /** Removes the copy. */
  remove(): Promise<void>;
}

/**
 * Copies a remote file to this machine, for programs that open files themselves.
 *
 * @throws SluiceError of reading; `STORE_FULL`; `FILE_UNREADABLE` for a file above
 *   `limits.maxTranscribedBytes`; the reason of `signal` once it is aborted.
 */
export async function copyToMachine(
  path: string,
  openFile: OpenFile,
  temporaryDirectory: string,
  signal: AbortSignal,
): Promise<LocalCopy> {
  const assertBytes = (bytes: number) => assertNotTooLarge(path, bytes);
  const reader = await openFile(path, { bounds: { signal, assertBytes } });
  let folder: string | undefined;
  const remove = async () => {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  };
  try {
    assertBytes(reader.bytes);
    folder = await mkdtemp(join(temporaryDirectory, "sluice-file-"));
    const copy = join(folder, nameOf(path));
    await copyBytes(reader, copy, signal);
    return { path: copy, remove };
  } catch (error) {
    await remove();
    throw storeError(error, folder ?? temporaryDirectory);
  } finally {
    await reader.close();
  }
}

/** Copies a file to a new local one, for its owner only. @returns how many bytes it has. */
export async function copyBytes(
  reader: RandomReader,
  path: string,
  signal?: AbortSignal,
): Promise<number> {
  const handle = await open(path, "wx", 0o600);
  try {
    for (let offset = 0; ; ) {
      signal?.throwIfAborted();
      const chunk = await reader.read(offset, limits.transferChunkBytes);
      if (chunk.length === 0) return offset;
      await handle.writeFile(chunk);
      offset += chunk.length;
    }
  } finally {
    await handle.close();
  }
}

/** The remote file's name in a form that every file system accepts. Programs need its ending. */
function nameOf(path: string): string {
  const end = basename(shownPath(path)).replaceAll("\0", "").slice(-maxCopyNameChars);
  return end === "" || end === "." || end === ".." ? "file" : end;
}

function assertNotTooLarge(path: string, bytes: number): void {
  const most = limits.maxTranscribedBytes;
  if (bytes <= most) return;
  throw new SluiceError("FILE_UNREADABLE", `${bytes} bytes, the most is ${most}`, { file: path });
}
