import type { Column } from "../../data/columns.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import type { Json } from "../../foundation/json.ts";
import type { AttemptCounts } from "../attempt/commit.ts";
import type { Bill } from "../bill/bill.ts";
import { manifestPathOf, successPath } from "../layout.ts";
import type { InputSummary, PlannedFile } from "../plan.ts";
import { readJson } from "../records.ts";

/** One task in the manifest: its files as they were published, and its commit. */
export interface ManifestTask {
  task: number;
  rows: number;
  results: number;
  failed: number;
  attempt: string;
  commit: PlannedFile;
  /** Null where the results are in the merged file, or in files of their own. */
  part: PlannedFile | null;
  /** The rows of its results as lines of JSON, where what is published is made of them. */
  source?: PlannedFile;
  /** Under which name the part was made of them, and lies a second time. */
  encoded?: string;
  /** Rows that a stage left out; absent = none. */
  filtered?: number;
  /** Rows with another number of lines than one, where there are any. */
  lineCounts?: PlannedFile;
  deadLetters: PlannedFile | null;
  /** What retries did to it, oldest first. */
  retried?: { commit: PlannedFile; generation: number; recovered: number }[];
}

/** The seal of a finished run: counts, checksums, usage, proof. */
export interface Manifest extends Omit<AttemptCounts, "invalid"> {
  format: 1;
  runId: string;
  generation: number;
  software: string;
  name: string | null;
  sealedAt: string;
  seed: number;
  /** Plan of the first generation. */
  plan: PlannedFile;
  /** Plans of the retries, oldest first. */
  retries?: { generation: number; plan: PlannedFile }[];
  input: InputSummary;
  /** How the engine was driven. */
  engine: { name: string; choices: Record<string, Json> } | null;
  busySeconds: number;
  /** What it cost; none in runs that an earlier version sealed. */
  bill?: Bill;
  tasks: ManifestTask[];
  /** The merged file, by its name beside the run directory. */
  merged: PlannedFile | null;
  /** Columns of the results, where these are tables. */
  columns?: readonly Column[];
  /** Result files by input or by row: a list with a line for each. */
  outputs?: { list: PlannedFile; files: number };
  /** The file of failed rows, by its name beside the run directory, where one was asked for. */
  errorFile?: PlannedFile;
  /** Ids that stand on more than one row; null where the job names no id field. */
  duplicateIds: { count: number; examples: { rows: [number, number] }[] } | null;
}

/** What `_SUCCESS` holds. */
export interface Success {
  generation: number;
  manifest: string;
  sha256: string;
}

/** The `_SUCCESS` file, or undefined while the run is not sealed. */
export function readSuccess(storage: Storage): Promise<Success | undefined> {
  return readJson<Success>(storage, successPath);
}

/**
 * The manifest that `_SUCCESS` vouches for, or undefined while the run is not sealed.
 *
 * @throws SluiceError `RUN_DAMAGED` when the manifest is not the one that was sealed.
 */
export async function readManifest(storage: Storage): Promise<Manifest | undefined> {
  const success = await readSuccess(storage);
  if (!success) return undefined;
  const bytes = await storage.read(manifestPathOf(success.generation));
  if (sha256Hex(bytes) !== success.sha256) {
    throw new SluiceError("RUN_DAMAGED", "it is not the one that was sealed", {
      file: manifestPathOf(success.generation),
    });
  }
  return JSON.parse(Buffer.from(bytes).toString()) as Manifest;
}
