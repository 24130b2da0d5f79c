import { describe, expect, it } from "vitest";
import { KeptCache } from "../../../../src/engines/transformers/decode/kept-cache.ts";
import { makePlainTensor } from "../plain-tensor.ts";

const rows = (...values: number[]) =>
  makePlainTensor("float32", Float32Array.from(values), [values.length, 1]);

const valuesOf = (cache: KeptCache, name: string) => [...cache.tensors![name]!.data];

describe("KeptCache", () => {
  it("keeps what a step gives under the names that the next one takes", () => {
    const cache = new KeptCache(2, makePlainTensor);
    expect(cache.tensors).toBeUndefined();
    cache.keep({
      logits: rows(0, 0),
      "present.0.decoder.key": rows(1, 2),
      present_conv: rows(3, 4),
    });
    expect(Object.keys(cache.tensors!)).toEqual(["past_key_values.0.decoder.key", "past_conv"]);
  });

  it("keeps of the encoder what the first step gave", () => {
    const cache = new KeptCache(2, makePlainTensor);
    cache.keep({ "present.0.encoder.key": rows(1, 2) });
    cache.keep({ "present.0.encoder.key": rows(), "present.0.decoder.key": rows(7, 8) });
    expect(valuesOf(cache, "past_key_values.0.encoder.key")).toEqual([1, 2]);
    expect(valuesOf(cache, "past_key_values.0.decoder.key")).toEqual([7, 8]);
  });

  it("follows beams, and touches what the encoder made only where rows come or go", () => {
    const cache = new KeptCache(2, makePlainTensor);
    cache.keep({ "present.0.encoder.key": rows(1, 2), "present.0.decoder.key": rows(1, 2) });
    expect(cache.follow([0, 0, 1, 1])).toEqual([0, 0, 1, 1]);
    expect(valuesOf(cache, "past_key_values.0.encoder.key")).toEqual([1, 1, 2, 2]);
    cache.keep({ "present.0.decoder.key": rows(10, 11, 20, 21) });
    const encoder = cache.tensors!["past_key_values.0.encoder.key"];
    expect(cache.follow([1, 0, 3, 3])).toBeUndefined();
    expect(cache.tensors!["past_key_values.0.encoder.key"]).toBe(encoder);
    expect(valuesOf(cache, "past_key_values.0.decoder.key")).toEqual([11, 10, 21, 21]);
    expect(cache.follow([2, 3])).toEqual([2, 3]);
    expect(valuesOf(cache, "past_key_values.0.encoder.key")).toEqual([2, 2]);
  });

  it("copies nothing where rows go on as they are", () => {
    const cache = new KeptCache(2, makePlainTensor);
    cache.keep({ "present.0.decoder.key": rows(1, 2) });
    const before = cache.tensors!["past_key_values.0.decoder.key"];
    cache.follow([0, 1]);
    expect(cache.tensors!["past_key_values.0.decoder.key"]).toBe(before);
  });
});
