// A naive Bayes classifier: it counts words of labelled reviews, and takes the label under which
// the words of a review are likelier. Any code that computes arrays could stand here.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { PredictorContext, PredictorItem } from "sluice";

type Label = "praise" | "complaint";

interface Review {
  id: string;
  text: string;
}

const labels: readonly Label[] = ["praise", "complaint"];
const counts: Record<Label, Map<string, number>> = { praise: new Map(), complaint: new Map() };

const wordsOf = (text: string) => text.toLowerCase().match(/\p{L}+/gu) ?? [];

/** Called once in each process, before the first batch. */
export async function load({ directory, options }: PredictorContext<{ learnFrom: string }>) {
  const lines = await readFile(join(directory, options.learnFrom), "utf8");
  for (const line of lines.trim().split("\n")) {
    const { text, label } = JSON.parse(line) as { text: string; label: Label };
    for (const word of wordsOf(text)) counts[label].set(word, (counts[label].get(word) ?? 0) + 1);
  }
}

/** Called for each batch: one result for each item, in their order. */
export function predict(batch: readonly PredictorItem<Review>[]) {
  return batch.map(({ row }) => {
    const words = wordsOf(row.text);
    // This row becomes a dead letter, its neighbours are answered.
    if (words.length === 0) return new Error("the review has no words");
    const [praise, complaint] = labels.map((label) => likelihood(label, words)) as [number, number];
    const share = 1 / (1 + Math.exp(complaint - praise));
    const label: Label = share >= 0.5 ? "praise" : "complaint";
    return { label, score: Number(Math.max(share, 1 - share).toFixed(3)) };
  });
}

/** The logarithm of how likely the words are under the label; unknown ones count as seen once. */
function likelihood(label: Label, words: readonly string[]): number {
  const known = counts[label];
  const total = [...known.values()].reduce((sum, count) => sum + count + 1, 1);
  return words.reduce((sum, word) => sum + Math.log(((known.get(word) ?? 0) + 1) / total), 0);
}
