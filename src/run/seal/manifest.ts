import type { Column } from "../../data/columns.ts";
import type { Json } from "../../foundation/json.ts";
import type { AttemptCounts } from "../attempt/commit.ts";
import type { Bill } from "../bill/bill.ts";
import type { InputSummary, PlannedFile } from "../plan/plan.ts";

/** One task in the manifest: its files as they were published, and its commit. */
export interface ManifestTask {
  task: number;
  /** The generation that planned it, and that its commit is of; absent = 1. */
  generation?: number;
  rows: number;
  results: number;
  failed: number;
  attempt: string;
  commit: PlannedFile;
  /** Null where the results are in the merged file, or in files of their own. */
  part: PlannedFile | null;
  /**
   * The rows of its results as lines of JSON, under a name that only their writer uses. Where they
   * are the part itself, `sluice clean` leaves the part alone. Version 0.1.0 names it for results
   * in other formats only.
   */
  source?: PlannedFile;
  /** Results in other formats: the file that was published as the part. */
  encoded?: string;
  /** The file that was published as the dead letters. */
  letters?: string;
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
  /** The generation whose plan has all tasks as they are now; absent = 1. */
  standing?: number;
  input: InputSummary;
  /** How the engine was driven. */
  engine: { name: string; choices: Record<string, Json> } | null;
  busySeconds: number;
  /** What it cost; none in runs that an earlier version sealed. */
  bill?: Bill;
  tasks: ManifestTask[];
  /** The merged file, by its name beside the run directory. */
  merged: PlannedFile | null;
  /** After a retry: the file of the run directory that it is a copy of. */
  mergedSource?: string;
  /** Columns of the results, where these are tables. */
  columns?: readonly Column[];
  /** Result files by input or by row: a list with a line for each. */
  outputs?: { list: PlannedFile; files: number };
  /** The file of failed rows, by its name beside the run directory, where one was asked for. */
  errorFile?: PlannedFile;
  /** After a retry: the file of the run directory that it is a copy of. */
  errorSource?: string;
  /** Ids that stand on more than one row; null where the job names no id field. */
  duplicateIds: { count: number; examples: { rows: [number, number] }[] } | null;
}

/** What `_SUCCESS` holds: for other programs; `Seal` is what counts. */
export interface Success {
  generation: number;
  manifest: string;
  sha256: string;
}
