import { type MakeTensor, padRows } from "../decode/tensors.ts";
import type { Encoding, LibraryTensor, Tensors } from "../transformers-js.ts";
import type { ModelParts } from "./task.ts";

/** A model's output for a batch of texts, padded on the right, with the length of each text. */
export async function encoderOutputs(
  { model, tokenizer, makeTensor }: ModelParts,
  batch: readonly Encoding[],
): Promise<Tensors> {
  const rows = batch.map(({ input_ids }) => input_ids);
  const { ids, mask } = padRows(rows, tokenizer.pad_token_id ?? 0, "right", makeTensor);
  const types = batch[0]!.token_type_ids && typesOf(batch, makeTensor);
  return model.forward({
    input_ids: ids,
    attention_mask: mask,
    ...(types && { token_type_ids: types }),
  });
}

/** The number of the text, of two, that each token belongs to; padding belongs to the first. */
function typesOf(batch: readonly Encoding[], makeTensor: MakeTensor): LibraryTensor {
  const rows = batch.map(({ input_ids, token_type_ids }) => {
    return token_type_ids ?? input_ids.map(() => 0);
  });
  return padRows(rows, 0, "right", makeTensor).ids;
}

/** The values of a tensor as floats of 32 bits. */
export function floatsOf(tensor: LibraryTensor): Float32Array {
  return (tensor.type === "float32" ? tensor : tensor.to("float32")).data as Float32Array;
}

/** Probabilities of mutually exclusive classes. */
export function softmax(logits: readonly number[]): number[] {
  const highest = Math.max(...logits);
  const weights = logits.map((logit) => Math.exp(logit - highest));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

/** The probability of a single class. */
export function sigmoid(logit: number): number {
  return 1 / (1 + Math.exp(-logit));
}
