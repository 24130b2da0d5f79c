import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { FileMetaData } from "hyparquet";
import { describe, expect, it } from "vitest";
import { chunkPlace, readFooter } from "../../../../src/data/formats/parquet/footer.ts";
import { parquetFormat } from "../../../../src/data/formats/parquet/parquet.ts";
import { exactText, parseExactly, parseSpecials } from "../../../../src/foundation/exact-json.ts";
import { readerOf } from "../reading.ts";
import { withFooter } from "./other-footer.ts";
import { encodedFile, readAll, readSlice, slicesOf } from "./reading.ts";

const golden = join(import.meta.dirname, "../../../golden/parquet");
const format = parquetFormat();

function file(name: string): Buffer {
  return readFileSync(join(golden, name));
}

/** The rows that the script which made a golden file wrote beside it. */
function rowsBeside(name: string): unknown[] {
  const lines = file(`${name}.jsonl`).toString().trimEnd().split("\n");
  return lines.map((text) => parseExactly(text));
}

describe("files of other tools", () => {
  it.each([
    ["pyarrow-types", "pyarrow-types"],
    ["pyarrow-v1-zstd", "chats"],
    ["pyarrow-v2-gzip", "chats"],
    ["pyarrow-brotli", "chats"],
    ["pyarrow-lz4", "chats"],
    ["pyarrow-none", "chats"],
    ["pandas", "pandas"],
    ["duckdb", "duckdb"],
    ["duckdb-interval", "duckdb-interval"],
  ])("are read right: %s", async (name, rowsName) => {
    const rows = await readAll(file(`${name}.parquet`));
    expect(rows.map(({ raw }) => parseExactly(raw))).toEqual(rowsBeside(rowsName));
    expect(rows.map(({ value }) => value)).toEqual(rows.map(({ raw }) => parseSpecials(raw)));
    expect(rows.map(({ index, line }) => [index, line])).toEqual(rows.map((_, at) => [at, at + 1]));
  });
});

describe("cuts", () => {
  it.each([1, 7, 63, 64, 65, 199, 200])("are exact, every %i rows", async (everyRows) => {
    for (const name of ["pyarrow-v1-zstd", "pyarrow-v2-gzip"]) {
      const content = file(`${name}.parquet`);
      const slices = await slicesOf(content, { everyRows, firstCutRows: 3 });
      expect(slices.map(({ rows }) => rows).slice(0, 2)).toEqual([3, Math.min(everyRows, 197)]);
      const rows = await readAll(content, { everyRows, firstCutRows: 3 });
      expect(rows.map(({ raw }) => parseExactly(raw))).toEqual(rowsBeside("chats"));
      expect(rows.map(({ line }) => line)).toEqual(rows.map((_, at) => at + 1));
    }
  });

  it("end where row groups end, if that is near enough", async () => {
    const content = file("pyarrow-v1-zstd.parquet");
    const rowsAt = async (everyRows: number) =>
      (await slicesOf(content, { everyRows, atOwnBorders: true })).map(({ rows }) => rows);
    expect(await rowsAt(200)).toEqual([200]);
    expect(await rowsAt(100)).toEqual([128, 72]);
    expect(await rowsAt(50)).toEqual([64, 64, 64, 8]);
    expect(await rowsAt(16)).toEqual([64, 64, 64, 8]);
    expect(await rowsAt(15)).toEqual([
      ...[13, 13, 13, 13, 12],
      ...[13, 13, 13, 13, 12],
      ...[13, 13, 13, 13, 12],
      8,
    ]);
    const rows = await readAll(content, { everyRows: 15, atOwnBorders: true });
    expect(rows.map(({ raw }) => exactText(parseExactly(raw)))).toEqual(
      rowsBeside("chats").map((row) => exactText(row as never)),
    );
  });
});

describe("projection", () => {
  it("gives the named columns, in the named order", async () => {
    const content = file("pyarrow-v2-gzip.parquet");
    const columns = ["language", "id"];
    const [slice] = await slicesOf(content, { columns });
    const rows = await readSlice(content, slice!, 0, columns);
    expect(rows[0]!.raw).toBe('{"language":"English","id":0}');
    expect(rows.map(({ value }) => value!.id)).toEqual(rows.map((_, at) => at));
  });

  it("names the columns there are where one is not", async () => {
    const content = file("pyarrow-brotli.parquet");
    const columns = ["langage"];
    const [slice] = await slicesOf(content, { columns });
    await expect(readSlice(content, slice!, 0, columns)).rejects.toMatchObject({
      code: "INPUT_UNREADABLE",
      message: expect.stringContaining("it has no column langage (in.parquet)"),
      hint: "its columns are id, conversation, scores, language",
    });
  });
});

describe("columns that rows do not keep", () => {
  const lines = Array.from({ length: 50 }, (_, id) =>
    JSON.stringify({ id, large: randomBytes(20_000).toString("base64"), label: `row ${id}` }),
  );
  const columns = ["label", "id"];

  it("are neither read nor in the checksum", async () => {
    const content = await encodedFile(lines);
    const ranges: { offset: number; length: number }[] = [];
    const reader = {
      ...readerOf(content),
      read: (offset: number, length: number) => {
        ranges.push({ offset, length });
        return readerOf(content).read(offset, length);
      },
    };
    const rule = { everyRows: 20, firstCutRows: 20, maxLineBytes: 1e6, columns };
    const found = await Array.fromAsync(format.scan(reader, "in.parquet", rule));
    const slices = found.map((it) => ({ file: "in.parquet", format: "parquet", ...it }));
    const options = { maxLineBytes: 1e6, columns };
    for (const slice of slices) await Array.fromAsync(format.read(reader, slice, 0, options));
    expect(slices.map(({ rows }) => rows)).toEqual([20, 20, 10]);
    const { groups } = await readFooter(readerOf(content), "in.parquet");
    const large = chunkPlace(groups[0]!.columns[1]!);
    const middle = (large.start + large.end) / 2;
    // The footer is read together with what lies before it.
    const own = ranges.filter(({ offset, length }) => offset + length < content.length);
    expect(own.length).toBeGreaterThan(0);
    expect(own.filter((it) => it.offset <= middle && it.offset + it.length > middle)).toEqual([]);

    const other = Buffer.from(content);
    other[middle] = other[middle]! ^ 1;
    expect((await readSlice(other, slices[0]!, 0, columns))[3]!.raw).toBe(
      '{"label":"row 3","id":3}',
    );
    const label = chunkPlace(groups[0]!.columns[2]!);
    other[label.end - 1] = other[label.end - 1]! ^ 1;
    const changed = expect.objectContaining({ code: "INPUT_CHANGED" });
    await expect(readSlice(other, slices[0]!, 0, columns)).rejects.toEqual(changed);
  });
});

describe("what a file says of itself", () => {
  it("is its columns and how many rows it has", async () => {
    const content = readerOf(file("pyarrow-types.parquet"));
    expect(await format.rowCount!(content, "in.parquet")).toBe(3);
    const columns = await format.columns!(content, "in.parquet");
    const types = Object.fromEntries(columns.map(({ name, type }) => [name, type]));
    expect(columns.filter(({ nullable }) => !nullable).map(({ name }) => name)).toEqual([
      "id",
      "text",
    ]);
    expect(types).toMatchObject({
      id: { kind: "integer", bits: 64, isSigned: true },
      unsigned8: { kind: "integer", bits: 8, isSigned: false },
      single: { kind: "number", bits: 32 },
      category: { kind: "string" },
      fixed: { kind: "bytes", length: 4 },
      price: { kind: "decimal", precision: 9, scale: 2 },
      exact: { kind: "decimal", precision: 38, scale: 10 },
      clock: { kind: "time", unit: "microseconds", isUtc: false },
      micros: { kind: "timestamp", unit: "microseconds", isUtc: false },
      nanos: { kind: "timestamp", unit: "nanoseconds", isUtc: true },
      none: { kind: "null" },
      list: { kind: "list", element: { type: { kind: "integer" }, nullable: true } },
      scores: { kind: "map", key: { kind: "string" }, value: { type: { kind: "number" } } },
    });
  });
});

describe("damage", () => {
  const whole = file("pyarrow-v1-zstd.parquet");
  const fault = (message: string) =>
    expect.objectContaining({
      code: "INPUT_UNREADABLE",
      message: expect.stringContaining(message),
      place: expect.objectContaining({ file: "in.parquet" }),
    });

  it.each([
    ["nothing in it", Buffer.alloc(0), "it has 0 bytes"],
    ["a text", Buffer.from("id,text\n1,a\n"), "no footer ends at byte 12"],
    ["the end torn off", whole.subarray(0, -1), `no footer ends at byte ${whole.length - 1}`],
    ["half of it", whole.subarray(0, whole.length / 2), "it is truncated, or no Parquet file"],
    ["the beginning torn off", whole.subarray(500), "lies beyond the data"],
    ["another beginning", withByte(whole, 0, 0x51), "it does not begin with the mark PAR1"],
    ["a footer that is none", withByte(whole, footerStart(whole), 0xff), "is damaged"],
    ["a length that cannot be", withByte(whole, whole.length - 6, 0xff), "its footer says it has"],
    ["encryption", withByte(whole, whole.length - 1, 0x45), "it is encrypted"],
  ])("is told while planning: %s", async (_name, content, message) => {
    await expect(slicesOf(content)).rejects.toEqual(fault(message));
  });

  it.each<[string, (footer: FileMetaData) => void, string]>([
    [
      "a row group without its rows",
      ({ row_groups: [group] }) => {
        group!.num_rows = 0n;
      },
      "row group 1 has 0 rows, its column id 64 values",
    ],
    [
      "a row group with others",
      ({ row_groups }) => {
        row_groups[3]!.num_rows = 9n;
      },
      "row group 4 has 9 rows, its column id 8 values",
    ],
    [
      "rows that nobody has",
      ({ row_groups }) => {
        row_groups[1]!.num_rows = -64n;
      },
      "row group 2 has -64 rows",
    ],
    [
      "fewer values of a list than rows",
      ({ row_groups: [group] }) => {
        group!.columns[1]!.meta_data!.num_values = 63n;
      },
      "row group 1 has 64 rows, its column conversation.list.element.role 63 values",
    ],
    [
      "another sum",
      (footer) => {
        footer.num_rows = 201n;
      },
      "it says that the file has 201 rows, its row groups have 200",
    ],
    [
      "a row group less",
      ({ row_groups }) => void row_groups.pop(),
      "it says that the file has 200 rows, its row groups have 192",
    ],
    [
      "a column less",
      ({ row_groups: [group] }) => void group!.columns.pop(),
      "row group 1 has 4 columns, the schema 5",
    ],
  ])("of a count is told while planning: %s", async (_name, change, message) => {
    await expect(slicesOf(withFooter(whole, change))).rejects.toEqual(fault(message));
  });

  it("of all counts is told where pages are others: no row is missing in silence", async () => {
    const counts = (change: (count: bigint) => bigint) =>
      withFooter(file("pyarrow-v2-gzip.parquet"), (footer) => {
        const [group] = footer.row_groups;
        footer.num_rows += change(group!.num_rows) - group!.num_rows;
        group!.num_rows = change(group!.num_rows);
        for (const { meta_data } of group!.columns) {
          meta_data!.num_values = change(meta_data!.num_values);
        }
      });
    expect(await readAll(counts((count) => count))).toHaveLength(200);
    const place = "row group 1, column id, page";
    for (const [change, message] of [
      [-1n, "its pages hold more values than the footer says"],
      [-63n, "its pages hold more values than the footer says"],
      [1n, "its pages hold fewer rows than the row group"],
    ] as const) {
      const rows = readAll(counts((count) => count + change));
      await expect(rows).rejects.toEqual(fault(place));
      await expect(rows).rejects.toEqual(fault(message));
    }
  });

  const withNulls = (name: string, column: number, count: bigint, writer?: string) =>
    withFooter(file(`${name}.parquet`), (footer) => {
      footer.row_groups[0]!.columns[column]!.meta_data!.statistics!.null_count = count;
      footer.created_by = writer ?? footer.created_by!;
    });

  it("of a count of nulls is told with its place", async () => {
    for (const [column, name, message] of [
      [4, "language", "its pages have 21 nulls, the footer says 20"],
      [0, "id", "its pages have 0 nulls, the footer says 20"],
    ] as const) {
      const rows = readAll(withNulls("pyarrow-v2-gzip", column, 20n));
      await expect(rows).rejects.toEqual(fault(`row group 1, column ${name}, page`));
      await expect(rows).rejects.toEqual(fault(message));
    }
  });

  it("of one level of a page is told, which moves values to other rows", async () => {
    const content = file("pyarrow-v2-gzip.parquet");
    const header = Buffer.from("1506152215225c158001152a158001151015121500120000", "hex");
    const levels = content.indexOf(header) + header.length + 1;
    const lowest = content[levels]! & -content[levels]!;
    const rows = readAll(withByte(content, levels, content[levels]! - lowest));
    await expect(rows).rejects.toEqual(
      fault("row group 1, column language, page 1: a page has 22 nulls, and says 21"),
    );
  });

  it.each([
    ["by a writer that is known to count wrong", 4, "Polars (python) version 1.30.0"],
    ["by Arrow before its counts were right", 4, "parquet-cpp-arrow version 5.0.0"],
    ["by nobody who says so", 4, ""],
    ["in lists, where nobody counts alike", 3, undefined],
  ])("is none where nulls are counted %s", async (_name, column, writer) => {
    const rows = await readAll(withNulls("pyarrow-v2-gzip", column, 20n, writer));
    expect(rows.map(({ raw }) => parseExactly(raw))).toEqual(rowsBeside("chats"));
  });

  it("is none where a page was skipped in which the nulls may be", async () => {
    const content = withNulls("pyarrow-v2-gzip", 0, 20n);
    const [, second] = await slicesOf(content, { everyRows: 32 });
    expect((await readSlice(content, second!)).map(({ line }) => line).at(-1)).toBe(64);
  });

  it("of a page's own count of nulls is told, where its writer counts right", async () => {
    // As libraries for Java write it for columns without statistics: -1 for 21.
    const headerOf = (nulls: string) => Buffer.from(`15800115${nulls}15800115`, "hex");
    const content = file("pyarrow-v2-gzip.parquet");
    headerOf("01").copy(content, content.indexOf(headerOf("2a")));
    const message = "column language, page 1: a page has 21 nulls, and says -1";
    await expect(readAll(content)).rejects.toEqual(fault(message));
    const ofJava = withFooter(content, (footer) => {
      footer.created_by =
        "parquet-mr version 1.13.1 (build db4183109d5b734ec5930d870cdae161e408ddba)";
    });
    const rows = await readAll(ofJava);
    expect(rows.map(({ raw }) => parseExactly(raw))).toEqual(rowsBeside("chats"));
  });

  it("of a page is told with its place", async () => {
    // The first page of each column; the script had checksums of pages written.
    const { groups } = await readFooter(readerOf(whole), "in.parquet");
    for (const [number, name] of ["id", "conversation"].entries()) {
      const column = groups[0]!.columns[number]!;
      const at = Number(column.data_page_offset) + Number(column.total_compressed_size) - 1;
      const content = withByte(whole, at, whole[at]! ^ 1);
      await expect(readAll(content)).rejects.toEqual(fault(`row group 1, column ${name}, page`));
    }
  });

  it("that came after planning is a changed input", async () => {
    const [slice] = await slicesOf(whole);
    for (const at of [100, whole.length - 2000]) {
      const content = withByte(whole, at, whole[at]! ^ 1);
      await expect(readSlice(content, slice!)).rejects.toMatchObject({ code: "INPUT_CHANGED" });
    }
    const shorter = whole.subarray(0, -10);
    await expect(readSlice(shorter, slice!)).rejects.toMatchObject({ code: "INPUT_CHANGED" });
  });

  it("of a row's text is a fault of that row", async () => {
    const plain = file("pyarrow-none.parquet");
    const at = plain.indexOf("turn 0 of 9");
    const rows = await readAll(withByte(plain, at, 0xff));
    expect(rows).toHaveLength(200);
    expect(rows.filter(({ error }) => error).map(({ index }) => index)).toEqual([9]);
    expect(rows[9]!.error).toMatchObject({
      code: "UTF8_INVALID",
      place: { file: "in.parquet", line: 10, field: "conversation" },
    });
  });

  it("a row that is too long is a fault of its own", async () => {
    const content = file("chats.jsonl").toString().split("\n")[6]!;
    const [slice] = await slicesOf(whole);
    const options = { maxLineBytes: content.length - 1 };
    const batches = await Array.fromAsync(format.read(readerOf(whole), slice!, 0, options));
    const faults = batches.flat().filter(({ error }) => error);
    expect(faults[0]!.error!.code).toBe("LINE_TOO_LONG");
    expect(faults.every(({ index }) => index % 7 === 6)).toBe(true);
  });
});

function footerStart(content: Buffer): number {
  return content.length - 8 - content.readUInt32LE(content.length - 8);
}

function withByte(content: Buffer, at: number, byte: number): Buffer {
  const changed = Buffer.from(content);
  changed[at] = byte;
  return changed;
}
