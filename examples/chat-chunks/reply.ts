// Answers questions by their last words. A model of yours would stand here: it gets the prompts of
// a batch, as many as have 2,000 characters together, and returns an answer for each.
import { setTimeout } from "node:timers/promises";
import type { PredictorContext, PredictorItem } from "sluice";

let batchMs = 0;

/** Called once, before the first batch. */
export function load({ options }: PredictorContext<{ batchMs: number }>) {
  batchMs = options.batchMs;
}

/** Called for each batch. The time it takes does not depend on how many prompts there are. */
export async function predict(batch: readonly PredictorItem[]) {
  const prompts = batch.map(({ prompt = "" }) => prompt);
  const characters = prompts.reduce((sum, prompt) => sum + prompt.length, 0);
  await setTimeout(batchMs);
  return prompts.map((prompt) => {
    const words = prompt.match(/\p{L}+/gu) ?? [];
    return {
      text: `You asked about: ${words.slice(-4).join(" ")}`,
      // Only to show what a batch is like.
      batch: { rows: prompts.length, characters },
    };
  });
}
