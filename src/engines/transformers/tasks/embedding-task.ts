import type { InferenceRequest } from "../../../foundation/inference.ts";
import type { Encoding } from "../transformers-js.ts";
import { TextTask } from "./encode.ts";
import { encoderOutputs, floatsOf } from "./encoder-batch.ts";
import { type CostedItem, shortNumber, type TaskResult, valueAnswer } from "./task.ts";

/** Vectors of texts. */
export class EmbeddingTask extends TextTask<Encoding> {
  itemOf(request: InferenceRequest): CostedItem<Encoding> {
    return this.encoded(request);
  }

  async run(batch: readonly Encoding[]): Promise<readonly TaskResult[]> {
    const outputs = await encoderOutputs(this.parts, batch);
    const { sentence_embedding: sentences, last_hidden_state, token_embeddings, logits } = outputs;
    const states = last_hidden_state ?? token_embeddings ?? logits;
    // A graph's own pooling is the mean, mostly; what the job asks for beside it counts.
    const isOwn = sentences !== undefined && this.options.pooling === "mean";
    const chosen = isOwn ? sentences : (states ?? sentences!);
    const values = floatsOf(chosen);
    const width = chosen.dims.at(-1)!;
    const block = values.length / batch.length;
    return batch.map(({ input_ids }, at) => {
      const own = values.subarray(at * block, (at + 1) * block);
      // A graph may contain the pooling.
      const isPooled = chosen.dims.length === 2;
      const value = isPooled ? this.#vector(own) : this.#pool(own, input_ids.length, width);
      return { answers: [{ ...valueAnswer(value), text: "" }], promptTokens: input_ids.length };
    });
  }

  /** @param states of the tokens of one text, padding last. */
  #pool(states: Float32Array, tokens: number, width: number): number[] | number[][] {
    const stateOf = (token: number) => states.subarray(token * width, (token + 1) * width);
    switch (this.options.pooling) {
      case "none":
        return Array.from({ length: tokens }, (_, token) => this.#vector(stateOf(token)));
      case "cls":
        return this.#vector(stateOf(0));
      case "last":
        return this.#vector(stateOf(tokens - 1));
      case "mean":
        return this.#vector(meanOf(states, tokens, width));
    }
  }

  #vector(values: Float32Array): number[] {
    const length = this.options.normalize ? lengthOf(values) : 1;
    const numbers = new Array<number>(values.length);
    for (let at = 0; at < values.length; at++) numbers[at] = shortNumber(values[at]! / length);
    return numbers;
  }
}

function meanOf(states: Float32Array, tokens: number, width: number): Float32Array {
  const mean = new Float32Array(width);
  for (let token = 0; token < tokens; token++) {
    const start = token * width;
    for (let at = 0; at < width; at++) mean[at]! += states[start + at]!;
  }
  for (let at = 0; at < width; at++) mean[at]! /= tokens;
  return mean;
}

function lengthOf(values: Float32Array): number {
  let sum = 0;
  for (const value of values) sum += value * value;
  // A vector of zeros has no direction, and stays unchanged.
  return Math.sqrt(sum) || 1;
}
