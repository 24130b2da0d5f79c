import { type ErrorRecord, SluiceError } from "../../foundation/errors.ts";
import { systemCode } from "../../foundation/system-errors.ts";

/** Differing files that the summary of a transfer names. */
const maxShownDifferences = 20;

/** Files that are uploaded or downloaded at once. */
export const transferredFilesAtOnce = 8;

/** Options of an upload or download. */
export interface TransferOptions {
  /** Replace files that have another content; default: leave them and report them. */
  overwrite: boolean;
  signal: AbortSignal;
  onProgress(done: TransferCounts): void;
}

export interface TransferCounts {
  /** Files that were transferred, and bytes so far, including files in progress. */
  files: number;
  bytes: number;
  /** Files that already existed with the same content, and their bytes. */
  skippedFiles: number;
  skippedBytes: number;
  /** Files that were left because another content is there. */
  differentFiles: number;
  /** Files that could not be transferred for a reason of their own. */
  failedFiles: number;
  /** Entries of the folder that are not files: links to folders or to nothing, and pipes. */
  leftOut: number;
}

/** The result of a transfer. */
export interface TransferSummary extends TransferCounts {
  /** Targets that have another content: the first of them. */
  different: string[];
  /** Why files could not be transferred: the first of them. */
  failures: ErrorRecord[];
}

export type FileOutcome = "moved" | "skipped" | "different";

/** Counts the outcomes of files and reports progress. */
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

  /** Counts transferred bytes of a file in progress. */
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
   * Transfers one file. If it fails for a reason of its own, the others continue.
   *
   * @throws errors that concern all files: the network, a full disk, a stop.
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

/** System errors about a single name, not about the disk. */
const codesOfNames = [
  ...["EEXIST", "ENOTDIR", "EISDIR", "ENAMETOOLONG", "EILSEQ", "EINVAL"],
  ...["EACCES", "EPERM", "ENOENT"],
];

function isOfOneFile(error: unknown): error is SluiceError {
  if (!(error instanceof SluiceError)) return false;
  if (["UNSUPPORTED", "INPUT_CHANGED", "NOT_FOUND"].includes(error.code)) return true;
  return codesOfNames.includes(systemCode(error.cause) ?? "");
}
