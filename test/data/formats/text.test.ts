import { describe, expect, it } from "vitest";
import { textFormat } from "../../../src/data/formats/text.ts";
import { brief, rowsOf } from "./reading.ts";

describe("text", () => {
  it("makes each line that is not blank a row", async () => {
    const content = '\uFEFFfirst "line"\r\n\n  indented \n{"a":1}\nlast';
    const rows = await rowsOf(textFormat(), content, { everyRows: 2 });
    expect(rows.map(brief)).toEqual([
      [0, 1, { text: 'first "line"' }],
      [1, 3, { text: "  indented " }],
      [2, 4, { text: '{"a":1}' }],
      [3, 5, { text: "last" }],
    ]);
    expect(rows.map((row) => row.raw)).toEqual(rows.map((row) => JSON.stringify(row.value)));
  });

  it("names lines that are no text", async () => {
    const content = Buffer.concat([
      Buffer.from("a\n"),
      Buffer.from([0xc3, 0x28]),
      Buffer.from("\nb"),
    ]);
    const rows = await rowsOf(textFormat(), content);
    expect(rows.map(brief)).toEqual([
      [0, 1, { text: "a" }],
      [1, 2, "UTF8_INVALID"],
      [2, 3, { text: "b" }],
    ]);
  });
});
