import type { BatchRecord, BatchRecords } from "../../../../src/engines/batch-records.ts";

/** Records in memory, as several processes share them; rows below 1000 are of task 0. */
export class MemoryRecords implements BatchRecords {
  readonly run = "20261126T120000Z";
  readonly records: BatchRecord[] = [];
  readonly ids = new Map<string, string | null>();
  /** Called before an id is kept: throws as if the process had been killed. */
  beforeId: () => void = () => {};

  async taskOf(row: number): Promise<number> {
    return Math.floor(row / 1000);
  }

  async list(task: number, after: number): Promise<BatchRecord[]> {
    return this.records.filter((each) => each.task === task && each.number > after);
  }

  async create(record: BatchRecord): Promise<BatchRecord> {
    const { task, number } = record;
    const standing = this.records.find((each) => each.task === task && each.number === number);
    if (!standing) this.records.push(record);
    return standing ?? record;
  }

  async keepId(record: BatchRecord, batch: string | null): Promise<string | null> {
    this.beforeId();
    if (!this.ids.has(record.key)) this.ids.set(record.key, batch);
    return this.ids.get(record.key)!;
  }

  async idOf(record: BatchRecord): Promise<string | null | undefined> {
    return this.ids.get(record.key);
  }

  placeOf({ task }: BatchRecord): string {
    return `out/_sluice/provider-batches/${task}/`;
  }
}
