import type { PredictorItem } from "../src/engines/predictor/predictor.ts";

/** Answers each row with the length of its text. */
export function predict(batch: readonly PredictorItem<{ text: string }>[]): number[] {
  return batch.map(({ row }) => row.text.length);
}
