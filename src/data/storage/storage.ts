/** A stored object's path and size. */
export interface StoredFile {
  /** Relative to the storage's root, `/` between folders. */
  path: string;
  bytes: number;
}

/** What a process that died left of an object it was writing. */
export interface Leftover extends StoredFile {
  /** Time since it last changed, by the store's own clock. */
  idleMs: number;
}

/** Reads at any place of one stored object. */
export interface RandomReader {
  /** Infinite where the length is not known until the end was read. */
  readonly bytes: number;
  /** Up to `length` bytes from `offset`; fewer only at the end of the object. */
  read(offset: number, length: number): Promise<Uint8Array>;
  /**
   * Fills `target` from `offset` on, where a storage can read into memory that is there.
   *
   * @returns bytes read: fewer than `target` holds only at the end of the object.
   */
  readInto?(target: Uint8Array, offset: number): Promise<number>;
  close(): Promise<void>;
}

/** Adds to the end of one object. What `append` resolved for survives a killed process. */
export interface Appender {
  append(data: Uint8Array): Promise<void>;
  /** Resolves when all that was appended survives a power loss. */
  sync(): Promise<void>;
  /**
   * @param options `isNeeded: false`: nobody will read what was appended, and a storage to which it
   * would have to be sent may drop it. The object stays, if only empty.
   */
  close(options?: { isNeeded?: boolean }): Promise<void>;
}

/** Writes one object from its start; it appears, whole, when `close` resolves. */
export interface Writer {
  write(data: Uint8Array): Promise<void>;
  close(): Promise<void>;
  /** Gives up: nothing appears. */
  abort(): Promise<void>;
}

/**
 * Bytes under paths, local or far. Paths are relative to the storage's root and use `/`. Every
 * implementation passes `sluice/testing`'s `storageConformance`.
 *
 * All methods throw SluiceError: `NOT_FOUND` where a named object is absent, `STORE_FULL`, else
 * `STORE_FAILED`.
 */
export interface Storage {
  /** Where it is, as a person writes it: a directory, `s3://bucket/prefix`, `memory:`. */
  readonly location: string;
  /** False where of two creators of one object both may be told that they made it. */
  readonly createsOnce?: boolean;
  /** The whole object. */
  read(path: string): Promise<Uint8Array>;
  open(path: string): Promise<RandomReader>;
  /** Size of the object, or undefined where there is none. */
  stat(path: string): Promise<StoredFile | undefined>;
  /** Objects whose path begins with `prefix`, at any depth, sorted by path (UTF-16 code units). */
  list(prefix: string): AsyncIterable<StoredFile>;
  /**
   * The primitive that exactly-once rests on: makes the object if none of that path exists, whole
   * or not at all, durable when it resolves. `"unclear"` after anything but a clean outcome: the
   * caller reads the record back.
   *
   * @param options `isLasting: false`: the object need not survive a power loss.
   * @throws SluiceError `STORE_UNSUITABLE` where the store has no such operation.
   */
  createIfAbsent(
    path: string,
    data: Uint8Array,
    options?: { isLasting?: boolean },
  ): Promise<"created" | "exists" | "unclear">;
  /** Makes or replaces the object in one step. For state that only informs, and for seals. */
  replace(path: string, data: Uint8Array): Promise<void>;
  /**
   * Lists show the object from when this resolves, empty or not. Its path ends in `.jsonl`: an
   * object store keeps it as several, and would have to look for these under every other name.
   *
   * @param options `isNew: true`: nobody ever had an appender there.
   */
  appender(path: string, options?: { isNew?: boolean }): Promise<Appender>;
  writer(path: string): Promise<Writer>;
  /** Makes `to` the same object as `from` (a link or a copy), replacing what was there. */
  publish(from: string, to: string): Promise<void>;
  /** Removes the object; absent is fine. */
  remove(path: string): Promise<void>;
  /**
   * What is being written to paths that begin with `prefix`, or was when its process died; no list
   * shows it. Absent on stores where nothing can be left.
   */
  leftovers?(prefix: string): AsyncIterable<Leftover>;
}
