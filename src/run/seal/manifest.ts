import type { Column } from "../../data/columns.ts";
import type { Json } from "../../foundation/json.ts";
import type { AttemptCounts } from "../attempt/commit.ts";
import type { Bill } from "../bill/bill.ts";
import type { FileRecord } from "../directory/file-record.ts";
import type { InputSummary } from "../plan/plan.ts";

/** One task in the manifest: its published files, and its commit. */
export interface ManifestTask {
  task: number;
  /** The generation that planned and committed it; absent = 1. */
  generation?: number;
  rows: number;
  results: number;
  failed: number;
  attempt: string;
  commit: FileRecord;
  /** Null if the results are in the merged file, or in files of their own. */
  part: FileRecord | null;
  /**
   * Its results as JSON lines, under a name that only their writer uses. If they are the part
   * itself, `sluice clean` keeps only the part. Version 0.1.0 names it only for results in other
   * formats.
   */
  source?: FileRecord;
  /** Results in other formats: the file that was published as the part. */
  encoded?: string;
  /** The file that was published as the dead letters. */
  letters?: string;
  /** Rows that a stage left out; absent = none. */
  filtered?: number;
  /** Rows with more or fewer lines than one. */
  lineCounts?: FileRecord;
  deadLetters: FileRecord | null;
  /** Changes by retries, oldest first. */
  retried?: { commit: FileRecord; generation: number; recovered: number }[];
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
  plan: FileRecord;
  /** Plans of the retries, oldest first. */
  retries?: { generation: number; plan: FileRecord }[];
  /** The generation whose plan has all tasks in their present state; absent = 1. */
  standing?: number;
  input: InputSummary;
  engine: { name: string; choices: Record<string, Json> } | null;
  busySeconds: number;
  /** Its cost; absent in runs that an earlier version sealed. */
  bill?: Bill;
  tasks: ManifestTask[];
  /** The merged file, by its name beside the run directory. */
  merged: FileRecord | null;
  /** After a retry: the file of the run directory that it is a copy of. */
  mergedSource?: string;
  columns?: readonly Column[];
  /** Result files by input or by row: a list with a line for each. */
  outputs?: { list: FileRecord; files: number };
  /** The file of failed rows, if requested, by its name beside the run directory. */
  errorFile?: FileRecord;
  /** After a retry: the file of the run directory that it is a copy of. */
  errorSource?: string;
  /** Ids that several rows have; null if the job names no id field. */
  duplicateIds: { count: number; examples: { rows: [number, number] }[] } | null;
}

/** The content of `_SUCCESS`, for other programs; the `Seal` is what counts. */
export interface Success {
  generation: number;
  manifest: string;
  sha256: string;
}
