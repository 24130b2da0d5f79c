import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonlFormat } from "../../../src/data/formats/jsonl.ts";
import { anyName, anyValue } from "../json-values.ts";
import { brief, readerOf, rowsOf, scanAll } from "./reading.ts";

const jsonl = jsonlFormat();
const bom = "\uFEFF";

describe("jsonl rows", () => {
  it("counts records, not blank lines, and keeps lines and texts as they are", async () => {
    const rows = await rowsOf(
      jsonl,
      `${bom}{"a":1.0}\r\n\r\n \t\n{ "b": 9007199254740993 } \n{"c":3}`,
    );
    expect(rows.map((row) => [row.index, row.line, row.raw])).toEqual([
      [0, 1, '{"a":1.0}'],
      [1, 4, '{ "b": 9007199254740993 } '],
      [2, 5, '{"c":3}'],
    ]);
    expect(rows[0]?.value).toEqual({ a: 1 });
  });

  it("finds no rows in nothing", async () => {
    for (const content of ["", bom, "\n\r\n  \n", `${bom} `]) {
      expect(await scanAll(jsonl, content)).toEqual([]);
    }
  });

  it("makes faults rows of their own and reads their neighbours", async () => {
    const content = Buffer.concat([
      Buffer.from('{"a":1}\n{"a":\n[1]\nnull\n"x"\n{"a":"'),
      Buffer.from([0xff, 0xfe]),
      Buffer.from('"}\n{"a":"\0"}\n{"a":2}\n'),
    ]);
    const rows = await rowsOf(jsonl, content);
    expect(rows.map(brief)).toEqual([
      [0, 1, { a: 1 }],
      [1, 2, "JSON_INVALID"],
      [2, 3, "ROW_NOT_OBJECT"],
      [3, 4, "ROW_NOT_OBJECT"],
      [4, 5, "ROW_NOT_OBJECT"],
      [5, 6, "UTF8_INVALID"],
      [6, 7, "NUL_BYTE"],
      [7, 8, { a: 2 }],
    ]);
    expect(rows[5]?.error?.message).toContain("byte 7 of the row");
    expect(rows[5]?.raw).toBe('{"a":"\uFFFD\uFFFD"}');
    const kept = rows.map(({ rawBase64 = "" }) =>
      Buffer.from(rawBase64, "base64").toString("latin1"),
    );
    expect(kept).toEqual(["", "", "", "", "", '{"a":"\xff\xfe"}', "", ""]);
    expect(rows[5]?.error?.place).toMatchObject({ file: "in", line: 6 });
  });

  it("says where JSON breaks", async () => {
    const [row, early] = await rowsOf(jsonl, '{"a":1,"b":x}\n{"a":');
    expect(row?.error?.message).toBe(
      'the line is not valid JSON: unexpected "x" at character 12 of the row (in:1)',
    );
    expect(early?.error?.message).toContain("it ends too early, at character 6");
  });

  it("keeps only the start of a line that is too long, blank or not", async () => {
    const long = `{"a":"${"é".repeat(1000)}"}`;
    const blank = " ".repeat(1001);
    for (const chunkBytes of [undefined, 7, 600]) {
      const format = jsonlFormat(chunkBytes);
      const content = `{"a":1}\n${long}\n${blank}\n${" ".repeat(1000)}\n{"a":2}\n${long}`;
      const rows = await rowsOf(format, content, { maxLineBytes: 1000, everyRows: 1 });
      expect(rows.map(brief)).toEqual([
        [0, 1, { a: 1 }],
        [1, 2, "LINE_TOO_LONG"],
        [2, 3, "LINE_TOO_LONG"],
        [3, 5, { a: 2 }],
        [4, 6, "LINE_TOO_LONG"],
      ]);
      expect(rows[1]?.raw.length).toBeLessThanOrEqual(1024);
      expect(long.startsWith(rows[1]?.raw ?? "?")).toBe(true);
    }
  });

  it("reads rows unparsed where only their text is wanted", async () => {
    const [slice] = await scanAll(jsonl, '{"a":1}\nbroken\n');
    for await (const rows of jsonl.read(readerOf('{"a":1}\nbroken\n'), slice!, 5, {
      maxLineBytes: 1000,
      parse: false,
    })) {
      expect(rows).toEqual([
        { index: 5, file: "in", line: 1, raw: '{"a":1}' },
        { index: 6, file: "in", line: 2, raw: "broken" },
      ]);
    }
  });

  it("gives arrays of at most 250 rows", async () => {
    const content = '{"a":1}\n'.repeat(600);
    const [slice] = await scanAll(jsonl, content, { everyRows: 5000 });
    const lengths: number[] = [];
    for await (const rows of jsonl.read(readerOf(content), slice!, 0, { maxLineBytes: 1000 })) {
      lengths.push(rows.length);
    }
    expect(lengths).toEqual([250, 250, 100]);
  });
});

describe("jsonl slices", () => {
  it("cuts at record borders; blank lines stay with the record before", async () => {
    const slices = await scanAll(jsonl, "\n1\n\n2\n3\n4\n\n", { firstCutRows: 1, everyRows: 2 });
    expect(slices.map(({ start, end, rows, firstLine }) => [start, end, rows, firstLine])).toEqual([
      [0, 4, 1, 1],
      [4, 8, 2, 4],
      [8, 11, 1, 6],
    ]);
  });

  it("notices that a slice has changed or become shorter", async () => {
    const content = '{"a":1}\n{"a":2}\n';
    const slices = await scanAll(jsonl, content, { everyRows: 1 });
    const readAs = async (now: string, slice = slices[1]!) => {
      for await (const _ of jsonl.read(readerOf(now), slice, 1, { maxLineBytes: 1000 }));
    };
    await readAs(content);
    await readAs('{"a":3}\n{"a":2}\n');
    const changed = { code: "INPUT_CHANGED" };
    await expect(readAs('{"a":1}\n{"a":3}\n')).rejects.toMatchObject(changed);
    await expect(readAs('{"a":1}\n{"a":2}')).rejects.toMatchObject(changed);
  });

  it("reads back what was written, for every cut and chunk size", async () => {
    const lineEnd = fc.constantFrom("\n", "\r\n", "\n\n", "\n \t\r\n", "\r\n\n   \n");
    const line = fc.record({ value: fc.dictionary(anyName, anyValue), end: lineEnd });
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 12 }),
        fc.record({
          start: fc.constantFrom("", bom, "\n", `${bom}\r\n`, "  \n"),
          hasLastEnd: fc.boolean(),
          chunkBytes: fc.integer({ min: 1, max: 60 }),
          firstCutRows: fc.integer({ min: 1, max: 5 }),
          everyRows: fc.integer({ min: 1, max: 5 }),
        }),
        async (lines, { start, hasLastEnd, chunkBytes, ...cut }) => {
          const texts = lines.map(({ value }) => JSON.stringify(value));
          const content = lines.map(({ end }, at) => texts[at] + end).join("");
          const whole = start + (hasLastEnd ? content : content.trimEnd());
          const rows = await rowsOf(jsonlFormat(chunkBytes), whole, cut);
          expect(rows.map((row) => row.raw)).toEqual(texts);
          expect(rows.map((row) => row.value)).toEqual(texts.map((text) => JSON.parse(text)));
          expect(rows.map((row) => row.index)).toEqual(rows.map((_, index) => index));
          const lineStarts = whole.split("\n").map((text) => text.replace(bom, "").trim());
          expect(rows.map((row) => lineStarts[row.line - 1])).toEqual(texts.map((t) => t.trim()));
        },
      ),
      { numRuns: 300 },
    );
  });
});
