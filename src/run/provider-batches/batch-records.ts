import type { BatchRecord, BatchRecords } from "../../engines/batch-records.ts";
import { providerBatchIdPath, providerBatchPath, taskBatchesPrefix } from "../directory/layout.ts";
import { createOnce, readJson } from "../directory/records.ts";
import { eachTask } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";

type BatchContext = Pick<RunContext, "storage" | "plan">;

/** The provider's id of a batch; null if it will not be created. */
interface IdRecord {
  batch: string | null;
}

/** The batches of a run at a provider, in its directory. */
export function openBatchRecords(context: BatchContext): BatchRecords {
  return new RunBatchRecords(context);
}

class RunBatchRecords implements BatchRecords {
  readonly run: string;
  readonly #context: BatchContext;
  #firstRows: Promise<{ rows: number[]; tasks: number[] }> | undefined;

  constructor(context: BatchContext) {
    const { runId, generation } = context.plan;
    this.#context = context;
    this.run = generation === 1 ? runId : `${runId}.g${generation}`;
  }

  async taskOf(row: number): Promise<number> {
    this.#firstRows ??= this.#readFirstRows().catch((error: unknown) => {
      // The next batch tries again.
      this.#firstRows = undefined;
      throw error;
    });
    const { rows, tasks } = await this.#firstRows;
    let [low, high] = [0, rows.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (rows[middle]! <= row) low = middle;
      else high = middle - 1;
    }
    return tasks[low]!;
  }

  async list(task: number, after: number): Promise<BatchRecord[]> {
    const { storage, plan } = this.#context;
    const records: BatchRecord[] = [];
    for await (const { path } of storage.list(taskBatchesPrefix(task, plan))) {
      const number = Number(/\/(\d+)\.json$/.exec(path)?.[1] ?? 0);
      if (number <= after) continue;
      const record = await readJson<BatchRecord>(storage, path);
      if (record) records.push(record);
    }
    return records.sort((a, b) => a.number - b.number);
  }

  async create(record: BatchRecord): Promise<BatchRecord> {
    const { storage, plan } = this.#context;
    const path = providerBatchPath(record, plan);
    return (await createOnce(storage, path, record, ({ key }) => key)).record;
  }

  async keepId(record: BatchRecord, batch: string | null): Promise<string | null> {
    const { storage, plan } = this.#context;
    const path = providerBatchIdPath(record, plan);
    const kept: IdRecord = { batch };
    return (await createOnce(storage, path, kept, (each) => String(each.batch))).record.batch;
  }

  async idOf(record: BatchRecord): Promise<string | null | undefined> {
    const { storage, plan } = this.#context;
    return (await readJson<IdRecord>(storage, providerBatchIdPath(record, plan)))?.batch;
  }

  placeOf({ task }: BatchRecord): string {
    const { storage, plan } = this.#context;
    return `${storage.location}/${taskBatchesPrefix(task, plan)}`;
  }

  async #readFirstRows() {
    const { storage, plan } = this.#context;
    const found: { row: number; task: number }[] = [];
    for await (const { task, firstRow: row } of eachTask(storage, plan)) found.push({ row, task });
    found.sort((a, b) => a.row - b.row);
    return { rows: found.map(({ row }) => row), tasks: found.map(({ task }) => task) };
  }
}
