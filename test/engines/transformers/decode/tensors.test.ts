import { describe, expect, it } from "vitest";
import {
  isIdentity,
  lastOfEach,
  padRows,
  pickRows,
  tokenColumn,
} from "../../../../src/engines/transformers/decode/tensors.ts";
import { makePlainTensor } from "../plain-tensor.ts";

describe("tensors", () => {
  it("pads on the side that is asked for, and says what counts", () => {
    const left = padRows([[5], [6, 7]], 9, "left", makePlainTensor);
    expect([...left.ids.data]).toEqual([9n, 5n, 6n, 7n]);
    expect([...left.mask.data]).toEqual([0n, 1n, 1n, 1n]);
    const right = padRows([[5], [6, 7]], 9, "right", makePlainTensor);
    expect([...right.ids.data]).toEqual([5n, 9n, 6n, 7n]);
    expect(right.ids.dims).toEqual([2, 2]);
  });

  it("has a column of tokens", () => {
    const { data, dims } = tokenColumn([3, 4], makePlainTensor);
    expect([[...data], dims]).toEqual([
      [3n, 4n],
      [2, 1],
    ]);
  });

  it("picks rows, also where they lie beside heads", () => {
    const tensor = makePlainTensor("float32", Float32Array.of(1, 2, 3, 4, 5, 6), [3, 2]);
    const picked = pickRows(tensor, [2, 0, 2, 1], 3, makePlainTensor);
    expect([[...picked.data], picked.dims]).toEqual([
      [5, 6, 1, 2, 5, 6, 3, 4],
      [4, 2],
    ]);
    const heads = makePlainTensor("float32", Float32Array.of(1, 2, 3, 4), [4, 1]);
    const one = pickRows(heads, [1], 2, makePlainTensor);
    expect([[...one.data], one.dims]).toEqual([
      [3, 4],
      [2, 1],
    ]);
  });

  it("sees where picking changes nothing", () => {
    expect(isIdentity([0, 1], 2)).toBe(true);
    expect(isIdentity([0, 1], 3)).toBe(false);
    expect(isIdentity([1, 0], 2)).toBe(false);
  });

  it("takes the last position of each row", () => {
    const logits = makePlainTensor("float32", Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8), [2, 2, 2]);
    expect(lastOfEach(logits).map((each) => [...each])).toEqual([
      [3, 4],
      [7, 8],
    ]);
  });
});
