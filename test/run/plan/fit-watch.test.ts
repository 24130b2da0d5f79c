import { expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { FitWatch } from "../../../src/run/plan/fit-watch.ts";

const lacking = (): never => {
  throw new SluiceError("VARIABLE_MISSING", "text", { field: "text" });
};
const row = { value: { title: "a" }, file: "/in.jsonl", line: 3 };

it("a prompt that fits none of the rows is refused, with what the first one lacks", () => {
  const watch = new FitWatch();
  expect(() => watch.assertFit()).not.toThrow();
  for (let tries = 0; tries < 2; tries++) {
    expect(() => watch.rendered(lacking, row)).toThrow(SluiceError);
  }
  expect(() => watch.assertFit()).toThrow(/none of the first 2 rows has text/);
});

it("a prompt that fits one of the rows is accepted", () => {
  const watch = new FitWatch();
  expect(() => watch.rendered(lacking, row)).toThrow(SluiceError);
  expect(watch.rendered(() => ["request"], row)).toEqual(["request"]);
  expect(() => watch.assertFit()).not.toThrow();
  expect([watch.isFit, watch.isUnfit]).toEqual([true, false]);
});
