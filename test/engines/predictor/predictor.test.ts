import { expect, expectTypeOf, it } from "vitest";
import { type PredictorItem, predictor } from "../../../src/engines/predictor/predictor.ts";

interface Review {
  text: string;
}

const item = { row: { text: "four" }, index: 0, promptName: "row" };
const call = { signal: new AbortController().signal };

it("types rows, results and options where it is written", async () => {
  const lengths = predictor<Review, number, { factor: number }>({
    load({ options }) {
      expectTypeOf(options).toEqualTypeOf<{ factor: number }>();
    },
    predict: (batch) => batch.map(({ row }) => row.text.length),
  });
  expect(await lengths.predict([item], call)).toEqual([4]);

  const later = predictor({
    predict: (batch: readonly PredictorItem<Review>[]) =>
      batch.map(async ({ row }) => (row.text === "" ? new Error("empty") : row.text.length)),
  });
  expectTypeOf(later.predict).parameter(0).toEqualTypeOf<readonly PredictorItem<Review>[]>();
  expect(await Promise.all(await later.predict([item], call))).toEqual([4]);

  predictor<Review, number>({
    // @ts-expect-error: each result is to be a number.
    predict: (batch) => batch.map(({ row }) => row.text),
  });
});
