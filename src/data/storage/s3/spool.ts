import { mkdir, open, readdir, readFile, rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ifThere, isAbsent } from "../../../foundation/system-errors.ts";
import { withStoreErrors } from "../local-errors.ts";
import { LocalAppender, LocalReader } from "../local-files.ts";
import type { Appender, RandomReader } from "../storage.ts";
import { segmentName, segmentPrefix } from "./segment-names.ts";

/** Tries to make a folder while another process removes its parents. */
const maxTries = 5;

/**
 * Segments that are not in the store yet. They survive the process, and the next process on this
 * machine reads them.
 */
export interface Spool {
  /** Numbers of a path's segments in this spool, in order. */
  numbers(path: string): Promise<number[]>;
  /** A new, empty segment to append to. */
  create(path: string, number: number): Promise<Appender>;
  /** The content of a segment, or undefined if it is gone. */
  read(path: string, number: number): Promise<Uint8Array | undefined>;
  /** A reader that works on after the segment is removed; undefined if it is gone. */
  open(path: string, number: number): Promise<RandomReader | undefined>;
  remove(path: string, number: number): Promise<void>;
  /** Removes the empty folders that a path's last segment left. */
  tidy(path: string): Promise<void>;
}

/** A spool in a local folder, with a file for each segment. */
export class FileSpool implements Spool {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  async numbers(path: string): Promise<number[]> {
    const folder = this.#folderOf(path);
    if (folder === undefined) return [];
    const names = (await withStoreErrors(folder, () => ifThere(readdir(folder)))) ?? [];
    return names
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .sort((a, b) => a - b);
  }

  async create(path: string, number: number): Promise<Appender> {
    const file = this.#fileOf(path, number);
    return await withStoreErrors(file, async () => {
      for (let triesLeft = maxTries; ; triesLeft--) {
        try {
          await mkdir(dirname(file), { recursive: true, mode: 0o700 });
          const handle = await open(file, "ax", 0o600);
          return new LocalAppender(handle, file, (it) => it.datasync());
        } catch (error) {
          // Another process may remove the empty folders above it.
          if (triesLeft === 1 || !isAbsent(error)) throw error;
        }
      }
    });
  }

  async read(path: string, number: number): Promise<Uint8Array | undefined> {
    const file = this.#fileOf(path, number);
    return await withStoreErrors(file, () => ifThere(readFile(file)));
  }

  async open(path: string, number: number): Promise<RandomReader | undefined> {
    const file = this.#fileOf(path, number);
    return await withStoreErrors(file, async () => {
      const handle = await ifThere(open(file, "r"));
      if (handle === undefined) return undefined;
      const { size } = await handle.stat();
      return new LocalReader(handle, file, size);
    });
  }

  async remove(path: string, number: number): Promise<void> {
    const file = this.#fileOf(path, number);
    await withStoreErrors(file, () => rm(file, { force: true }));
  }

  async tidy(path: string): Promise<void> {
    let folder = this.#folderOf(path);
    while (folder !== undefined && folder.length >= this.#root.length) {
      const isRemoved = await rmdir(folder).then(
        () => true,
        // Another process has segments below it, or removed it first.
        () => false,
      );
      if (!isRemoved) return;
      folder = dirname(folder);
    }
  }

  #fileOf(path: string, number: number): string {
    return join(this.#folderOf(path) ?? this.#root, segmentName(number));
  }

  // A key that would lead out of the folder is never appended to.
  #folderOf(path: string): string | undefined {
    if (path.split("/").some((part) => part === ".." || part === ".")) return undefined;
    return join(this.#root, segmentPrefix(path));
  }
}
