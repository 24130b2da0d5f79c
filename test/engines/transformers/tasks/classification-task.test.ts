import { expect, it } from "vitest";
import { ClassificationTask } from "../../../../src/engines/transformers/tasks/classification-task.ts";
import type { Model, Tokenizer } from "../../../../src/engines/transformers/transformers-js.ts";
import { transformersOptions } from "../../../integration/transformers-files.ts";
import { makePlainTensor } from "../plain-tensor.ts";

function valuesOf(logits: readonly number[], classes: number, config: object): Promise<unknown[]> {
  const rows = logits.length / classes;
  const outputs = {
    logits: makePlainTensor("float32", Float32Array.from(logits), [rows, classes]),
  };
  const model = { config, forward: async () => outputs } as unknown as Model;
  const tokenizer = { model_max_length: 8 } as unknown as Tokenizer;
  const options = transformersOptions({ task: "text-classification", name: "a/b" });
  const task = new ClassificationTask({ model, tokenizer, makeTensor: makePlainTensor }, options);
  const batch = Array.from({ length: rows }, () => ({ input_ids: [5] }));
  return task.run(batch).then((results) => results.map(({ answers }) => answers[0]!.value));
}

it.each([
  [[0, Math.log(3)], 2, {}, [{ label: "LABEL_1", score: 0.75 }]],
  [
    [0, Math.log(3)],
    1,
    {},
    [
      { label: "LABEL_0", score: 0.5 },
      { label: "LABEL_0", score: 0.75 },
    ],
  ],
  [[2.5], 1, { problem_type: "regression" }, [{ label: "LABEL_0", score: 2.5 }]],
])("scores of %j over %i classes, with %j, are those of Hugging Face", async (...given) => {
  const [logits, classes, config, wanted] = given;
  expect(await valuesOf(logits, classes, config)).toEqual(wanted);
});
