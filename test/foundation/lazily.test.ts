import { expect, it } from "vitest";
import { lazily } from "../../src/foundation/lazily.ts";

it("makes a value when it is wanted, and once", () => {
  const made: number[] = [];
  const value = lazily(() => void made.push(made.length));
  expect(made).toEqual([]);
  value();
  value();
  expect(made).toEqual([0]);
});
