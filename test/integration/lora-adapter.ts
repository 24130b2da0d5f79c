import { mix32 } from "../../src/foundation/random.ts";
import { ggufFile, pair, type TinyTensor } from "../engines/tiny-gguf.ts";

/** What an adapter changes: one matrix of each layer. */
export interface AdapterShape {
  layers: number;
  /** Length of a row, and number of rows, of the matrix. */
  inputs: number;
  outputs: number;
  rank: number;
}

/** The queries of SmolLM2-135M. */
export const queriesShape: AdapterShape = { layers: 30, inputs: 576, outputs: 576, rank: 4 };

const floatType = 0;

/**
 * A LoRA adapter for the queries of a model of the architecture `llama`, as
 * `convert_lora_to_gguf.py` of llama.cpp writes them. The model's weights W become W + B A.
 *
 * @param strength bound of the numbers in B; with 0 the adapter changes nothing.
 */
export function loraAdapter(strength: number, shape = queriesShape, seed = 1): Buffer {
  const { layers, inputs, outputs, rank } = shape;
  const pairs = [
    pair.text("general.type", "adapter"),
    pair.text("general.architecture", "llama"),
    pair.text("adapter.type", "lora"),
    pair.float("adapter.lora.alpha", rank),
  ];
  const tensors = Array.from({ length: layers }, (_, layer): TinyTensor[] => {
    const name = `blk.${layer}.attn_q.weight`;
    const numbers = (count: number, most: number, of: number) =>
      floats(count, most, seed * 1_000_003 + layer * 2 + of);
    return [
      {
        ...{ name: `${name}.lora_a`, dimensions: [inputs, rank], type: floatType },
        data: numbers(inputs * rank, 1 / Math.sqrt(inputs), 0),
      },
      {
        ...{ name: `${name}.lora_b`, dimensions: [rank, outputs], type: floatType },
        data: numbers(rank * outputs, strength, 1),
      },
    ];
  });
  return ggufFile(pairs, tensors.flat());
}

/** Numbers between `-most` and `most` that follow from `seed`. */
function floats(count: number, most: number, seed: number): Buffer {
  const numbers = Float32Array.from({ length: count }, (_, index) => {
    const share = mix32(seed * 65_537 + index) / 2 ** 32;
    return most * (2 * share - 1);
  });
  return Buffer.from(numbers.buffer);
}
