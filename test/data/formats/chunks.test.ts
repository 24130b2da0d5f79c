import { describe, expect, it } from "vitest";
import { csvFormat } from "../../../src/data/formats/csv/csv.ts";
import { jsonFormat } from "../../../src/data/formats/json.ts";
import { jsonlFormat } from "../../../src/data/formats/jsonl.ts";
import { textFormat } from "../../../src/data/formats/text.ts";
import { scanAll } from "./reading.ts";

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
