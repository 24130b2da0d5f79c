/** A stored object's path and size. */
export interface StoredFile {
  /** Relative to the storage's root, `/` between folders. */
  path: string;
  bytes: number;
}

/** What a process that died left of an object that it was writing. */
export interface Leftover extends StoredFile {
  /** Time since it last changed, by the store's own clock. */
  idleMs: number;
}

/** Reads one stored object at any offset. */
export interface RandomReader {
  /** Infinite while the length is unknown, until the end was read. */
  readonly bytes: number;
  /** Up to `length` bytes from `offset`; fewer only at the end of the object. */
  read(offset: number, length: number): Promise<Uint8Array>;
  /**
   * Fills `target` from `offset` on; present if the storage can read into existing memory.
   *
   * @returns bytes read; fewer than `target.length` only at the end of the object.
   */
  readInto?(target: Uint8Array, offset: number): Promise<number>;
  close(): Promise<void>;
}

/** Appends to one object. Once `append` resolves, its bytes survive a killed process. */
export interface Appender {
  append(data: Uint8Array): Promise<void>;
  /** Resolves when all appended bytes survive a power loss. */
  sync(): Promise<void>;
  /**
   * @param options `isNeeded: false`: nobody will read the appended bytes, so a remote storage may
   *   drop them instead of sending them. The object stays, perhaps empty.
   */
  close(options?: { isNeeded?: boolean }): Promise<void>;
}

/** Writes one object from its start. The whole object appears when `close` resolves. */
export interface Writer {
  write(data: Uint8Array): Promise<void>;
  close(): Promise<void>;
  /** Gives up; no object appears. */
  abort(): Promise<void>;
}

/**
 * Bytes under paths, local or remote. Paths are relative to the storage's root and use `/`. Every
 * implementation passes `storageConformance` of `test/conformance`.
 *
 * All methods throw SluiceError: `NOT_FOUND` if a named object is absent, `STORE_FULL`,
 * `STORE_UNSUITABLE` where that is said below, else `STORE_FAILED`.
 */
export interface Storage {
  /** Its location, as a person writes it: a directory, `s3://bucket/prefix`, `memory:`. */
  readonly location: string;
  /** By which a command without a job finds its store, each after a space; default: none. */
  readonly flags?: string | undefined;
  /** False if two creators of one object may both be told that they created it; default true. */
  readonly createsOnce?: boolean | undefined;
  /** The whole object. */
  read(path: string): Promise<Uint8Array>;
  open(path: string): Promise<RandomReader>;
  /** Size of the object, or undefined if it does not exist. */
  stat(path: string): Promise<StoredFile | undefined>;
  /** Objects whose path begins with `prefix`, at any depth, sorted by path (UTF-16 code units). */
  list(prefix: string): AsyncIterable<StoredFile>;
  /**
   * The operation on which exactly-once rests. Creates the object if none of that path exists,
   * whole or not at all; once it resolves, the object is durable. `"unclear"` after anything but a
   * clean outcome: the caller then reads the record back.
   *
   * @param options `isLasting: false`: the object need not survive a power loss.
   * @throws SluiceError `STORE_UNSUITABLE` if the store has no such operation.
   */
  createIfAbsent(
    path: string,
    data: Uint8Array,
    options?: { isLasting?: boolean },
  ): Promise<"created" | "exists" | "unclear">;
  /** Creates or replaces the object in one step. For seals, and for state that only informs. */
  replace(path: string, data: Uint8Array): Promise<void>;
  /**
   * An appender to the object. Listings show the object once this resolves, even if it is empty.
   * Its path must end in `.jsonl`: an object store keeps it in segments, and would otherwise have
   * to look for segments under every name.
   *
   * @param options `isNew: true`: the path never had an appender.
   */
  appender(path: string, options?: { isNew?: boolean }): Promise<Appender>;
  writer(path: string): Promise<Writer>;
  /** Makes `to` the same object as `from` (a link or a copy) and replaces what was there. */
  publish(from: string, to: string): Promise<void>;
  /** Removes the object; an absent one is fine. */
  remove(path: string): Promise<void>;
  /** As `remove`, for many in any order. Absent if nothing is faster than a call for each. */
  removeAll?(paths: readonly string[]): Promise<void>;
  /**
   * Unfinished objects whose path begins with `prefix`, of live and of dead processes; no listing
   * shows them. Absent if the storage leaves nothing behind.
   */
  leftovers?(prefix: string): AsyncIterable<Leftover>;
  /** The same of objects with exactly these paths. Present if `leftovers` is. */
  leftoversOf?(paths: readonly string[]): AsyncIterable<Leftover>;
}
