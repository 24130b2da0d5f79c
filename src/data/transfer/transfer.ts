import { type ErrorRecord, SluiceError } from "../../foundation/errors.ts";
import { systemCode } from "../storage/local-errors.ts";

/** Differing files that the end of a transfer names. */
const maxShownDifferences = 20;

/** Files that are uploaded or downloaded at once. */
const transferredFilesAtOnce = 8;

/** How a transfer is done. */
export interface TransferOptions {
  /** Replace files of other content; default: leave them and say so. */
  overwrite: boolean;
  signal: AbortSignal;
  onProgress(done: TransferCounts): void;
}

/** How far a transfer is. */
export interface TransferCounts {
  /** Files that were moved, and their bytes; of one under way those that are through. */
  files: number;
  bytes: number;
  /** Files that were there already, with the same content, and their bytes. */
  skippedFiles: number;
  skippedBytes: number;
  /** Files that were left because another content is there. */
  differentFiles: number;
  /** Files that could not be moved, for what is the matter with each of them alone. */
  failedFiles: number;
  /** Entries of the folder that are not files: links to folders or nowhere, pipes. */
  leftOut: number;
}

/** How a transfer ended. */
export interface TransferSummary extends TransferCounts {
  /** Targets that have another content: the first of them. */
  different: string[];
  /** Why files could not be moved: the first of them. */
  failures: ErrorRecord[];
}

/** What has become of one file. */
export type FileOutcome = "moved" | "skipped" | "different";

/** Counts what becomes of files, and tells of each step. */
export class TransferTally {
  readonly #options: TransferOptions;
  readonly #counts: TransferCounts = {
    ...{ files: 0, bytes: 0, skippedFiles: 0, skippedBytes: 0, differentFiles: 0 },
    ...{ failedFiles: 0, leftOut: 0 },
  };
  readonly #different: string[] = [];
  readonly #failures: ErrorRecord[] = [];

  constructor(options: TransferOptions) {
    this.#options = options;
  }

  /** Bytes of a file went through. */
  moved(bytes: number): void {
    this.#counts.bytes += bytes;
    this.#options.onProgress(this.#counts);
  }

  ended(outcome: FileOutcome, target: string, bytes: number): void {
    if (outcome === "moved") this.#counts.files++;
    else if (outcome === "skipped") {
      this.#counts.skippedFiles++;
      this.#counts.skippedBytes += bytes;
    } else {
      this.#counts.differentFiles++;
      if (this.#different.length < maxShownDifferences) this.#different.push(target);
    }
    this.#options.onProgress(this.#counts);
  }

  leftOut(): void {
    this.#counts.leftOut++;
  }

  /**
   * Moves one file; a failure that is its own does not keep the others.
   *
   * @throws what concerns them all: the network, a full disk, a stop.
   */
  async move(action: () => Promise<void>): Promise<void> {
    this.#options.signal.throwIfAborted();
    try {
      await action();
    } catch (error) {
      if (!isOfOneFile(error)) throw error;
      this.#counts.failedFiles++;
      if (this.#failures.length < maxShownDifferences) this.#failures.push(error.toJSON());
    }
  }

  get summary(): TransferSummary {
    const failures = [...this.#failures];
    return { ...this.#counts, different: [...this.#different].sort(), failures };
  }
}

/** What the file system says of one name, and not of the disk. */
const codesOfNames = [
  ...["EEXIST", "ENOTDIR", "EISDIR", "ENAMETOOLONG", "EILSEQ", "EINVAL"],
  ...["EACCES", "EPERM", "ENOENT"],
];

function isOfOneFile(error: unknown): error is SluiceError {
  if (!(error instanceof SluiceError)) return false;
  if (["UNSUPPORTED", "INPUT_CHANGED", "NOT_FOUND"].includes(error.code)) return true;
  return codesOfNames.includes(systemCode(error.cause) ?? "");
}

/**
 * Handles items, some at once. After a failure no more are begun, and it is thrown when those that
 * were under way have ended.
 */
export async function eachAtOnce<T>(
  items: AsyncIterable<T>,
  handle: (item: T) => Promise<void>,
): Promise<void> {
  const underWay = new Set<Promise<void>>();
  const failures: unknown[] = [];
  try {
    for await (const item of items) {
      const handling = handle(item)
        .catch((error) => void failures.push(error))
        .finally(() => underWay.delete(handling));
      underWay.add(handling);
      if (underWay.size >= transferredFilesAtOnce) await Promise.race(underWay);
      if (failures.length > 0) break;
    }
  } finally {
    await Promise.all(underWay);
  }
  if (failures.length > 0) throw failures[0];
}
