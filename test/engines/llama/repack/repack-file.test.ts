import { readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { blockFormats, toQ8Blocks } from "../../../../src/engines/llama/repack/blocks.ts";
import { parseGgufHeader } from "../../../../src/engines/llama/repack/gguf-header.ts";
import { planRepacking, writeRepacked } from "../../../../src/engines/llama/repack/repack-file.ts";
import { sha256Hex } from "../../../../src/foundation/hashing.ts";
import { temporaryFolder } from "../../models/context.ts";
import { ggufFile, pair, q41Blocks, slowModel, someBytes } from "./tiny-gguf.ts";

const planOf = (bytes: Buffer) => planRepacking(parseGgufHeader(bytes, "")!, bytes.length);

async function repack(bytes: Buffer) {
  const folder = await temporaryFolder();
  const [source, target] = [join(folder, "source.gguf"), join(folder, "target.gguf")];
  await writeFile(source, bytes);
  const plan = planOf(bytes)!;
  const sha256 = await writeRepacked(source, target, plan);
  return { plan, sha256, written: await readFile(target) };
}

describe("planRepacking", () => {
  it("names the formats, and knows the size beforehand", async () => {
    const { plan, written } = await repack(slowModel().bytes);
    expect(plan.formats).toEqual(["Q4_1"]);
    expect(written.length).toBe(plan.bytes);
  });

  it.each([
    ["without slow weights", [{ name: "a", dimensions: [2], type: 0, data: someBytes(8, 1) }], []],
    [
      "of several files",
      [{ name: "a", dimensions: [32], type: 3, data: q41Blocks(1, 1) }],
      [pair.uint16("split.count", 2)],
    ],
  ])("has nothing to do for a model %s", (_name, tensors, pairs) => {
    expect(planOf(ggufFile(pairs, tensors))).toBeUndefined();
  });

  it.each([
    ["reaches into the next", [64, 32]],
    ["has a part of a block", [33]],
  ])("refuses a tensor that %s", (_name, dimensions) => {
    const tensors = [
      { name: "bad", dimensions, type: 3, data: q41Blocks(1, 1) },
      { name: "next", dimensions: [32], type: 3, data: q41Blocks(1, 1) },
    ];
    expect(() => planOf(ggufFile([], tensors))).toThrow(/tensor bad does not fit/);
  });

  it("refuses a file that ends within its slow weights", () => {
    const { bytes } = slowModel();
    expect(() => planOf(bytes.subarray(0, -20))).toThrow(/tensor slow too does not fit/);
  });
});

describe("writeRepacked", () => {
  it("keeps pairs and other tensors byte for byte, and repacks the slow ones", async () => {
    const { bytes, pairs, tensors } = slowModel();
    const { written, sha256 } = await repack(bytes);
    expect(sha256).toBe(sha256Hex(written));
    const header = parseGgufHeader(written, "")!;
    const kept = Buffer.concat(pairs);
    kept.writeUInt32LE(7, header.fileTypeAt);
    expect(header.pairs).toEqual(kept);
    for (const [index, { name, dimensions, type, data }] of tensors.entries()) {
      const described = header.tensors[index]!;
      const isSlow = type === 3;
      expect(described).toMatchObject({ name, dimensions, type: isSlow ? 8 : type });
      expect(described.offset % 32).toBe(0);
      const start = header.dataStart + described.offset;
      const expected = isSlow ? toQ8Blocks(blockFormats[3]!, data) : data;
      expect(written.subarray(start, start + expected.length)).toEqual(expected);
    }
  });

  it("honours a larger alignment, also in version 2", async () => {
    const data = q41Blocks(3, 1);
    const tensors = ["a", "b"].map((name) => ({ name, dimensions: [96], type: 3, data }));
    const pairs = [pair.uint32("general.alignment", 256)];
    const options = { version: 2, alignment: 256 };
    const { written } = await repack(ggufFile(pairs, tensors, options));
    const repacked = toQ8Blocks(blockFormats[3]!, data);
    const expected = tensors.map((tensor) => ({ ...tensor, type: 8, data: repacked }));
    expect(written).toEqual(ggufFile(pairs, expected, options));
  });

  it("takes tensors that lie in another order than they are described in", async () => {
    const { bytes } = slowModel();
    const header = parseGgufHeader(bytes, "")!;
    const plan = planRepacking({ ...header, tensors: header.tensors.toReversed() }, bytes.length)!;
    expect(plan.tensors.map(({ name }) => name)).toEqual(["norm", "slow", "unknown", "slow too"]);
    const offsets = parseGgufHeader(plan.header, "")!.tensors.map(({ offset }) => offset);
    expect(offsets).toEqual(offsets.toSorted((a, b) => b - a));
  });

  it("repacks a tensor of several pieces", async () => {
    const data = q41Blocks(60_000, 5);
    const { written } = await repack(
      ggufFile([], [{ name: "large", dimensions: [32, 60_000], type: 3, data }]),
    );
    const { dataStart } = parseGgufHeader(written, "")!;
    const expected = toQ8Blocks(blockFormats[3]!, data);
    expect(sha256Hex(written.subarray(dataStart))).toBe(sha256Hex(expected));
  });

  it("names a source that was cut off meanwhile", async () => {
    const { bytes } = slowModel();
    const folder = await temporaryFolder();
    const source = join(folder, "source.gguf");
    await writeFile(source, bytes);
    await truncate(source, bytes.length - 100);
    await expect(
      writeRepacked(source, join(folder, "target.gguf"), planOf(bytes)!),
    ).rejects.toMatchObject({ code: "MODEL_CORRUPT" });
  });
});
