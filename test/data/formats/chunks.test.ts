import { describe, expect, it } from "vitest";
import { verifiedChunks } from "../../../src/data/formats/chunks.ts";
import { csvFormat } from "../../../src/data/formats/csv/csv.ts";
import { jsonFormat } from "../../../src/data/formats/json.ts";
import { jsonlFormat } from "../../../src/data/formats/jsonl.ts";
import { textFormat } from "../../../src/data/formats/text.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { readerOf, scanAll } from "./reading.ts";

describe("chunks of a slice", () => {
  it("end in INPUT_CHANGED where the file ends first, or has other bytes", async () => {
    const whole = Buffer.from('{"a":1}\n{"a":2}\n');
    const slice = {
      ...{ file: "in", format: "jsonl", rows: 2, firstLine: 1 },
      ...{ start: 0, end: whole.length, sha256: sha256Hex(whole) },
    };
    const chunks = async (content: Buffer) => {
      const reader = { ...readerOf(content), bytes: whole.length };
      return Buffer.concat(await Array.fromAsync(verifiedChunks(reader, slice, 8)));
    };
    expect(await chunks(whole)).toEqual(whole);
    for (const other of [whole.subarray(0, 9), Buffer.from('{"a":1}\n{"a":3}\n')]) {
      await expect(chunks(other)).rejects.toMatchObject({ code: "INPUT_CHANGED" });
    }
  });
});

describe("text in UTF-16", () => {
  it.each([
    ["jsonl", jsonlFormat, '{"a":1}\n'],
    ["json", jsonFormat, '[{"a":1}]'],
    ["csv", csvFormat, "a,b\n1,2\n"],
    ["text", textFormat, "line\n"],
  ] as const)("is refused as %s, by the file and in words", async (_name, make, text) => {
    const little = Buffer.from(`\uFEFF${text}`, "utf16le");
    for (const content of [little, Buffer.from(little).swap16()]) {
      await expect(scanAll(make(1), content)).rejects.toMatchObject({
        code: "INPUT_UNREADABLE",
        message: expect.stringContaining("it is UTF-16 text (in)"),
        hint: expect.stringContaining("set input.encoding to utf-16"),
      });
    }
  });
});
