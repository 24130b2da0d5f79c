import { describe, expect, it } from "vitest";
import { EmbeddingTask } from "../../../../src/engines/transformers/tasks/embedding-task.ts";
import type {
  LibraryTensor,
  Model,
  Tokenizer,
} from "../../../../src/engines/transformers/transformers-js.ts";
import { transformersOptions } from "../../../integration/transformers-files.ts";
import { makePlainTensor } from "../plain-tensor.ts";

/** States of two texts, of two tokens and of one with padding behind it, of width 2. */
const states = Float32Array.of(3, 4, 1, 0, 0, 2, 100, 100);
const batch = [{ input_ids: [5, 6] }, { input_ids: [7] }];

function valuesOf(given: object, pooled?: LibraryTensor): Promise<unknown[]> {
  const outputs = {
    last_hidden_state: makePlainTensor("float32", states, [2, 2, 2]),
    ...(pooled && { sentence_embedding: pooled }),
  };
  const model = { config: {}, forward: async () => outputs } as unknown as Model;
  const tokenizer = { model_max_length: 8 } as unknown as Tokenizer;
  const options = transformersOptions({ task: "feature-extraction", name: "a/b", ...given });
  const task = new EmbeddingTask({ model, tokenizer, makeTensor: makePlainTensor }, options);
  return task.run(batch).then((results) => results.map(({ answers }) => answers[0]!.value));
}

describe("EmbeddingTask", () => {
  it.each([
    [
      "mean",
      [
        [2, 2],
        [0, 2],
      ],
    ],
    [
      "cls",
      [
        [3, 4],
        [0, 2],
      ],
    ],
    [
      "last",
      [
        [1, 0],
        [0, 2],
      ],
    ],
    [
      "none",
      [
        [
          [3, 4],
          [1, 0],
        ],
        [[0, 2]],
      ],
    ],
  ])("pools by %s, and leaves padding out", async (pooling, wanted) => {
    expect(await valuesOf({ pooling, normalize: false })).toEqual(wanted);
  });

  it("takes the vectors of a graph that pools by itself", async () => {
    const pooled = makePlainTensor("float32", Float32Array.of(1, 2, 3, 4), [2, 2]);
    const wanted = [
      [1, 2],
      [3, 4],
    ];
    expect(await valuesOf({ normalize: false }, pooled)).toEqual(wanted);
    const tokens = await valuesOf({ normalize: false, pooling: "none" }, pooled);
    expect(tokens[1]).toEqual([[0, 2]]);
    // What else the job asks for is not what the graph did.
    expect(await valuesOf({ normalize: false, pooling: "cls" }, pooled)).toEqual([
      [3, 4],
      [0, 2],
    ]);
  });

  it("gives vectors of length 1 unless told otherwise", async () => {
    expect(await valuesOf({ pooling: "cls" })).toEqual([
      [0.6, 0.8],
      [0, 1],
    ]);
  });
});
