import fc from "fast-check";
import Papa from "papaparse";
import { describe, expect, it } from "vitest";
import { csvFormat, tsvFormat } from "../../../../src/data/formats/csv/csv.ts";
import type { RowReadOptions } from "../../../../src/data/formats/format.ts";
import type { InputRow } from "../../../../src/data/row.ts";
import { readerOf, rowsOf, scanAll } from "../reading.ts";

const csv = csvFormat();

/** The rows of a file that is read as one slice. */
async function rowsAs(content: string, options: Partial<RowReadOptions>): Promise<InputRow[]> {
  const [slice] = await scanAll(csv, content);
  const found: InputRow[] = [];
  for await (const rows of csv.read(readerOf(content), slice!, 0, {
    maxLineBytes: 1000,
    ...options,
  })) {
    found.push(...rows);
  }
  return found;
}

async function messagesOf(content: string | Uint8Array): Promise<(string | undefined)[]> {
  return (await rowsOf(csv, content)).map((row) => row.error?.message);
}

describe("csv rows", () => {
  it("may have 100,000 columns", async () => {
    const names = Array.from({ length: 100_000 }, (_, at) => `c${at}`);
    const content = `${names.join(",")}\n${names.map((_, at) => at).join(",")}\n`;
    const [row] = await rowsAs(content, { maxLineBytes: 10_000_000 });
    expect(Object.keys(row!.value!)).toEqual(names);
    expect(row!.value).toMatchObject({ c0: "0", c99999: "99999" });
  });

  it("know the line on which they begin", async () => {
    const content = 'a,b\n1,"x\ny"\n\n2,z\r\n"\n",""\n3,4';
    for (const chunkBytes of [1, 3, 1000]) {
      const rows = await rowsOf(csvFormat(chunkBytes), content, { everyRows: 1 });
      expect(rows.map((row) => [row.line, row.raw])).toEqual([
        [2, '{"a":"1","b":"x\\ny"}'],
        [5, '{"a":"2","b":"z"}'],
        [6, '{"a":"\\n","b":""}'],
        [8, '{"a":"3","b":"4"}'],
      ]);
    }
  });

  it("end before a carriage return that is cut off from its newline", async () => {
    for (const last of ["y", '"y"']) {
      for (const chunkBytes of [1, 2, 3, 1000]) {
        const content = `a,b\r\n1,x\r\n2,${last}\r`;
        const rows = await rowsOf(csvFormat(chunkBytes), content, { everyRows: 1 });
        expect(rows.map((row) => row.value)).toEqual([
          { a: "1", b: "x" },
          { a: "2", b: "y" },
        ]);
      }
    }
  });

  it("fail alone where they have other fields than the header, and say which", async () => {
    const [short, long, quoted, fine] = await messagesOf(
      'a,"b c",d\n1\n1,2,3,"four\n"\n"1"x,2,3\n1,2,3\n',
    );
    expect(short).toBe(
      'the record is not valid CSV: it has 1 field, the header has 3: the first that is missing is "b c" (in:2, field b c)',
    );
    expect(long).toContain(
      'has 4 fields, the header has 3: the first that is too many is "four\\n"',
    );
    expect(quoted).toContain("text follows a closing quote (in:5)");
    expect(fine).toBe(undefined);
    const [row] = await rowsOf(csv, "a,b\n1\n");
    expect(row?.raw).toBe("1");
  });

  it("are texts as they stand, or what a schema asks for", async () => {
    const content =
      "id,n,x,ok,tags,gap,text\n" +
      '9007199254740993,007,.5e3,TRUE,"[1, {""a"":2}]",,12\n' +
      "+1,2.0,-0.10,no,[broken,3,\n";
    const plain = await rowsAs(content, {});
    expect(plain[0]?.value).toMatchObject({
      id: "9007199254740993",
      n: "007",
      ok: "TRUE",
      gap: "",
    });
    const schema = {
      properties: {
        id: { type: "integer" },
        n: { $ref: "#/$defs/count" },
        x: { type: "number" },
        ok: { type: "boolean" },
        tags: { type: "array" },
        gap: { anyOf: [{ type: "integer" }, { type: "null" }] },
        text: { type: ["string", "integer"] },
      },
      $defs: { count: { type: "integer" } },
    };
    const typed = await rowsAs(content, { schema });
    expect(typed.map((row) => row.raw)).toEqual([
      '{"id":9007199254740993,"n":7,"x":0.5e3,"ok":true,"tags":[1, {"a":2}],"gap":null,"text":"12"}',
      '{"id":1,"n":2,"x":-0.10,"ok":"no","tags":"[broken","gap":3,"text":""}',
    ]);
    expect(typed.map((row) => row.value)).toEqual(typed.map((row) => JSON.parse(row.raw)));
  });

  it("lack what an empty text cannot be", async () => {
    const schema = { properties: { n: { type: "integer" }, kind: { enum: [1, 2] } } };
    const rows = await rowsAs("n,kind,c\n,1,\n", { schema });
    expect(rows[0]?.raw).toBe('{"kind":1,"c":""}');
  });
});

describe("csv files", () => {
  const error = async (content: string | Uint8Array, format = csv) => {
    try {
      await scanAll(format, content);
      return "no error";
    } catch (thrown) {
      return thrown;
    }
  };

  it("that are cut off within quotes are refused while they are scanned", async () => {
    expect(await error('a,b\n1,2\n3,"four\nfive\n')).toMatchObject({
      code: "INPUT_UNREADABLE",
      message: expect.stringContaining("a quote opens here and never closes"),
      place: { file: "in", line: 3 },
    });
    expect(await error('a\n"x"y\n"z\n')).toMatchObject({
      message: expect.stringContaining("text first follows a closing quote on line 2"),
    });
  });

  it("whose header names no columns are refused, with what to do", async () => {
    const cases: [string | Uint8Array, string][] = [
      ["a,b,a\n", 'columns 1 and 3 are named "a"'],
      ["a,,\n", "columns 2 and 3 have no name"],
      ["a;b\n1;2\n", 'has no comma, as csv has, but a semicolon: set input.delimiter to ";"'],
      ["a\tb\n", "but a tab: set input.delimiter to tab"],
      ["a,b\r1,2\r", "lines end with a carriage return alone"],
      [Buffer.from("caf\u00E9,b\n", "latin1"), "its header is not UTF-8 text"],
      ['"a"b,c\n', "a quote of the header is misplaced"],
    ];
    for (const [content, message] of cases) {
      expect(await error(content)).toMatchObject({
        code: "INPUT_UNREADABLE",
        message: expect.stringContaining(message),
      });
    }
    expect(await error("a,b\n", tsvFormat())).toMatchObject({
      message: expect.stringContaining(
        'has no tab, as tsv has, but a comma: set input.delimiter to ","',
      ),
    });
    expect(await error('"a;b"\n1\n')).toBe("no error");
    expect(await error(`a${",x".repeat(9)}${"y".repeat(5 * 1024 * 1024)}`)).toMatchObject({
      message: expect.stringContaining("its header exceeds"),
    });
  });

  it("whose header has changed are noticed in every slice", async () => {
    const content = "a,b\n1,2\n3,4\n";
    const slices = await scanAll(csv, content, { everyRows: 1 });
    expect(slices.map(({ header }) => header?.bytes)).toEqual([undefined, 3]);
    for (const now of ["b,a\n1,2\n3,4\n", "a,a\n1,2\n3,4\n", "\n\n\n\n1,2\n3,4\n"]) {
      for (const slice of slices) {
        const reading = async () => {
          for await (const _ of csv.read(readerOf(now), slice, 0, { maxLineBytes: 1000 }));
        };
        await expect(reading()).rejects.toMatchObject({ code: "INPUT_CHANGED" });
      }
    }
  });

  it("read as the library reads them whole, for every cut and chunk size", async () => {
    const field = fc.oneof(
      fc.string({ unit: "grapheme", maxLength: 6 }),
      fc.string({ unit: fc.constantFrom(",", '"', "\n", "\r\n", "a", "\t"), maxLength: 5 }),
    );
    const table = fc
      .integer({ min: 1, max: 4 })
      .chain((width) => fc.array(fc.array(field, { minLength: width, maxLength: width })));
    await fc.assert(
      fc.asyncProperty(
        table,
        fc.record({
          newline: fc.constantFrom("\n", "\r\n"),
          quotes: fc.boolean(),
          mark: fc.constantFrom("", "\uFEFF"),
          chunkBytes: fc.integer({ min: 1, max: 40 }),
          everyRows: fc.integer({ min: 1, max: 4 }),
        }),
        async (records, { newline, quotes, mark, chunkBytes, everyRows }) => {
          const width = records[0]?.length ?? 2;
          const names = Array.from({ length: width }, (_, at) => `c${at}`);
          // An empty field alone in its line is a blank line, unless it is quoted.
          const options = { newline, quotes: quotes || width === 1 };
          const content = mark + Papa.unparse([names, ...records], options);
          const rows = await rowsOf(csvFormat(chunkBytes), content, { everyRows });
          expect(rows.map((row) => Object.values(row.value ?? {}))).toEqual(records);
        },
      ),
      { numRuns: 300 },
    );
  });
});
