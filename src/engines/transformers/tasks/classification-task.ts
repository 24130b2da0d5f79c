import type { InferenceRequest } from "../../../foundation/inference.ts";
import type { Encoding } from "../transformers-js.ts";
import { TextTask } from "./encode.ts";
import { encoderOutputs, floatsOf, sigmoid, softmax } from "./encoder-batch.ts";
import { type CostedItem, shortNumber, type TaskResult, valueAnswer } from "./task.ts";

/** A label, with the model's confidence: 0 to 1. */
export interface LabelScore {
  [key: string]: string | number;
  label: string;
  score: number;
}

/** Labels of texts, by the classes of the model's training. */
export class ClassificationTask extends TextTask<Encoding> {
  itemOf(request: InferenceRequest): CostedItem<Encoding> {
    return this.encoded(request);
  }

  async run(batch: readonly Encoding[]): Promise<readonly TaskResult[]> {
    const { logits } = await encoderOutputs(this.parts, batch);
    const values = floatsOf(logits!);
    const classes = values.length / batch.length;
    return batch.map(({ input_ids }, at) => {
      const scores = this.#scores([...values.subarray(at * classes, (at + 1) * classes)]);
      const { topLabels } = this.options;
      const kept = topLabels === "all" ? scores : scores.slice(0, topLabels);
      const value = topLabels === 1 ? kept[0]! : kept;
      return { answers: [valueAnswer(value)], promptTokens: input_ids.length };
    });
  }

  /** The likeliest first. */
  #scores(logits: readonly number[]): LabelScore[] {
    const { problem_type, id2label } = this.parts.model.config;
    // As the pipeline of Hugging Face: the softmax of one class alone would be 1 for every text.
    const isEach = problem_type === "multi_label_classification" || logits.length === 1;
    const likelihoods = isEach ? logits.map(sigmoid) : softmax(logits);
    const scores = problem_type === "regression" ? logits : likelihoods;
    return scores
      .map((score, at) => ({ label: id2label?.[at] ?? `LABEL_${at}`, score: shortNumber(score) }))
      .sort((one, other) => other.score - one.score);
  }
}
