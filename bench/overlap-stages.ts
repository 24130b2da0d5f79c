import { setTimeout as sleep } from "node:timers/promises";

interface Row {
  id: number;
}

/** Milliseconds that a batch takes at each of the two stages. */
export const batchMs = 20;

/** A stage that computes: nothing else has its core meanwhile. */
export class Prepare {
  call(batch: readonly Row[]): readonly Row[] {
    const endMs = performance.now() + batchMs;
    while (performance.now() < endMs);
    return batch;
  }
}

/** A model whose batches are computed elsewhere, as on a GPU. */
export const predict = async (batch: readonly { row: Row }[]): Promise<number[]> => {
  await sleep(batchMs);
  return batch.map(({ row }) => row.id);
};
