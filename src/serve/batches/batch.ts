import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import type { TraceContext } from "../../foundation/telemetry.ts";
import { recordBytes } from "../../run/directory/records.ts";
import type { BatchOptions, ServedModelOptions } from "../options.ts";

/** What is wrong with a batch, or with a line of its input. */
export interface BatchProblem {
  code: string;
  message: string;
  param: string | null;
  /** From 1. */
  line: number | null;
}

type BatchStatus =
  | "validating"
  | "failed"
  | "in_progress"
  | "finalizing"
  | "completed"
  | "expired"
  | "cancelling"
  | "cancelled";

/** A batch, as OpenAI's API describes it. Times are seconds since 1970. */
export interface BatchObject {
  id: string;
  object: "batch";
  endpoint: string;
  model: string | null;
  errors: { object: "list"; data: BatchProblem[] } | null;
  input_file_id: string;
  completion_window: "24h";
  status: BatchStatus;
  output_file_id: string | null;
  error_file_id: string | null;
  created_at: number;
  in_progress_at: number | null;
  expires_at: number;
  finalizing_at: number | null;
  completed_at: number | null;
  failed_at: number | null;
  expired_at: number | null;
  cancelling_at: number | null;
  cancelled_at: number | null;
  request_counts: { total: number; completed: number; failed: number };
  usage: JsonObject | null;
  metadata: Record<string, string> | null;
}

/** What is stored of a batch. */
export interface BatchRecord {
  batch: BatchObject;
  /** Time from the creation of its results to their removal; default: they stay. */
  outputLifeSeconds?: number | undefined;
  /** Why no more of its rows are sent. */
  stoppedBy?: "expired" | "cancelled";
  /** How the model samples, as the server's file said when the batch began. */
  generation?: ServedModelOptions["generation"];
  /**
   * The model that workers elsewhere hold copies of, and where, as the server's file said when the
   * batch began; default: the model of the server answers.
   */
  copied?: { model: ServedModelOptions["model"]; place: BatchOptions };
  /** The span of the request that made it, to which its run belongs. */
  trace?: TraceContext | undefined;
  /** Ids of its results, chosen before the files are made. */
  fileIds?: { output: string; error: string };
}

const ended: ReadonlySet<BatchStatus> = new Set(["failed", "completed", "expired", "cancelled"]);

export const recordsFolder = "batch-records/";

export function batchPaths(id: string) {
  const folder = `batches/${id}/`;
  return {
    input: `${folder}input.jsonl`,
    /** Responses; the run directory lies beside it. */
    output: `${folder}output.jsonl`,
    /** Lines of failed rows, as the run writes them. */
    failed: `${folder}failed.jsonl`,
    /** The same lines in OpenAI's form. */
    errors: `${folder}errors.jsonl`,
    run: `${folder}output.jsonl.sluice`,
  };
}

export class Batch {
  readonly record: BatchRecord;
  readonly #storage: Storage;
  readonly #stop = new AbortController();
  readonly #shut = new AbortController();
  /** The last save; each waits for the one before. */
  #saved: Promise<unknown> = Promise.resolve();

  constructor(record: BatchRecord, storage: Storage) {
    this.record = record;
    this.#storage = storage;
    if (record.stoppedBy) this.#abort(record.stoppedBy);
  }

  get id(): string {
    return this.record.batch.id;
  }

  get object(): BatchObject {
    return this.record.batch;
  }

  get hasEnded(): boolean {
    return ended.has(this.record.batch.status);
  }

  /** Aborted when no more of its rows may be sent; the reason is the rows' error. */
  get stopped(): AbortSignal {
    return this.#stop.signal;
  }

  /** Aborted when none of its rows may wait at its model's door any more. */
  get shut(): AbortSignal {
    return this.#shut.signal;
  }

  /** Ends the waits of its rows at their model's door, and those of rows that still come. */
  endWaits(): void {
    this.#shut.abort(this.stopped.reason);
  }

  async change(changes: Partial<BatchObject>): Promise<void> {
    Object.assign(this.record.batch, changes);
    await this.save();
  }

  async save(): Promise<void> {
    // What is stored is the state at that time, so that a late write holds nothing old.
    const write = () =>
      this.#storage.replace(`${recordsFolder}${this.id}.json`, recordBytes(this.record));
    const saved = this.#saved.then(write, write);
    this.#saved = saved;
    await saved;
  }

  /** Sends no more of its rows. Those in work end. */
  async stop(by: "expired" | "cancelled", changes: Partial<BatchObject>): Promise<void> {
    this.record.stoppedBy = by;
    // Also if the storage fails: whoever hears of that asks again, and is told that it is stopped.
    await this.change(changes).finally(() => this.#abort(by));
  }

  #abort(by: "expired" | "cancelled"): void {
    this.#stop.abort(new SluiceError(by === "expired" ? "BATCH_EXPIRED" : "BATCH_CANCELED"));
  }
}
