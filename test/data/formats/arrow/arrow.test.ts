import { describe, expect, it } from "vitest";
import { arrowFormat } from "../../../../src/data/formats/arrow/arrow.ts";
import { openArrow } from "../../../../src/data/formats/arrow/arrow-file.ts";
import { FlatTable } from "../../../../src/data/formats/arrow/flat-table.ts";
import type { Message } from "../../../../src/data/formats/arrow/messages.ts";
import { keptText, parseExactly, parseSpecials } from "../../../../src/foundation/exact-json.ts";
import { readerOf, scanAll } from "../reading.ts";
import { file, readAll, rowsBeside } from "./reading.ts";

const format = arrowFormat();

describe("files of pyarrow", () => {
  it.each([
    ["types.arrow", "parquet/pyarrow-types.jsonl"],
    ["types.arrows", "parquet/pyarrow-types.jsonl"],
    ["types-zstd.arrow", "parquet/pyarrow-types.jsonl"],
    ["chats-lz4.arrow", "parquet/chats.jsonl"],
    ["chats-zstd.arrows", "parquet/chats.jsonl"],
    ["chats.feather", "parquet/chats.jsonl"],
    ["odd.arrow", "arrow/odd.jsonl"],
    ["odd-lz4.arrows", "arrow/odd.jsonl"],
  ])("are read right: %s", async (name, beside) => {
    for (const everyRows of [1, 63, 1000]) {
      const rows = await readAll(file(name), everyRows);
      expect(rows.map(({ raw }) => keptText(parseExactly(raw)))).toEqual(rowsBeside(beside));
      expect(rows.map(({ value }) => value)).toEqual(rows.map(({ raw }) => parseSpecials(raw)));
      const places = rows.map(({ index, line }) => [index, line]);
      expect(places).toEqual(rows.map((_, at) => [at, at + 1]));
    }
  });

  it.each(["deltas.arrow", "deltas.arrows", "replaced.arrows"])(
    "have at each batch the dictionary of that place: %s",
    async (name) => {
      const entry = (n: number, at: number) =>
        name.startsWith("deltas") ? `v${at * n}` : `b${n}-${at}`;
      const expected = [0, 1, 2, 3].flatMap((n) => [
        { d: entry(n, 0), n },
        { d: entry(n, 1), n },
        { d: null, n },
      ]);
      for (const everyRows of [1, 2, 3, 100]) {
        const rows = await readAll(file(name), everyRows);
        expect(rows.map(({ value }) => value)).toEqual(expected);
      }
    },
  );

  it("are cut where record batches end, if that is near enough", async () => {
    const reader = readerOf(file("chats-lz4.arrow"));
    const rule = { everyRows: 100, firstCutRows: 100, atOwnBorders: true, maxLineBytes: 1e6 };
    const ranges = await Array.fromAsync(format.scan(reader, "in", rule));
    expect(ranges.map(({ rows }) => rows)).toEqual([128, 72]);
  });

  it("say their columns and how many rows they have", async () => {
    const reader = readerOf(file("types.arrow"));
    expect(await format.rowCount!(reader, "in")).toBe(3);
    const columns = await format.columns!(reader, "in");
    const types = Object.fromEntries(columns.map(({ name, type }) => [name, type]));
    expect(columns.filter(({ nullable }) => !nullable).map(({ name }) => name)).toEqual([
      "id",
      "text",
    ]);
    expect(types).toMatchObject({
      id: { kind: "integer", bits: 64, isSigned: true },
      unsigned8: { kind: "integer", bits: 8, isSigned: false },
      category: { kind: "string" },
      fixed: { kind: "bytes", length: 4 },
      exact: { kind: "decimal", precision: 38, scale: 10 },
      micros: { kind: "timestamp", unit: "microseconds", isUtc: false },
      nanos: { kind: "timestamp", unit: "nanoseconds", isUtc: true },
      list: { kind: "list", element: { type: { kind: "integer" }, nullable: true } },
      scores: { kind: "map", key: { kind: "string" }, value: { type: { kind: "number" } } },
    });
  });
});

describe("what is not read", () => {
  const fault = (message: string) => ({
    code: "INPUT_UNREADABLE",
    message: expect.stringContaining(message),
    place: { file: "in" },
  });

  it("is a column that other columns can be read beside", async () => {
    const content = file("union.arrow");
    await expect(scanAll(format, content)).rejects.toMatchObject({
      ...fault("column u holds unions, which are not read"),
      hint: "leave it out: name the others by input.columns",
    });
    const columns = ["a"];
    const rule = { everyRows: 9, firstCutRows: 9, maxLineBytes: 1e6, columns };
    const [range] = await Array.fromAsync(format.scan(readerOf(content), "in", rule));
    const slice = { file: "in", format: "arrow", ...range! };
    const rows = await Array.fromAsync(
      format.read(readerOf(content), slice, 0, { maxLineBytes: 1e6, columns }),
    );
    expect(rows.flat().map(({ raw }) => raw)).toEqual(['{"a":1}', '{"a":2}']);
  });

  const whole = file("chats-lz4.arrow");
  const stream = file("chats-zstd.arrows");
  it.each([
    ["nothing in it", Buffer.alloc(0), "it does not begin with a schema"],
    ["a text", Buffer.from("id,text\n1,a\n"), "it does not begin as Arrow does"],
    ["Feather of old", Buffer.from("FEA1...........FEA1"), "Feather of version 1"],
    ["the end torn off", whole.subarray(0, -1), `no footer ends at byte ${whole.length - 1}`],
    ["half of it", whole.subarray(0, whole.length / 2), "it is truncated"],
    ["a footer that is none", withByte(whole, footerStart(whole) + 2, 0xff), "its footer"],
    ["a stream's end torn off", stream.subarray(0, -200), "is cut off: the file is truncated"],
    ["a stream's beginning", withByte(stream, 7, 0x7f), "it does not begin as Arrow does"],
  ])("is told while planning: %s", async (_name, content, message) => {
    await expect(scanAll(format, content)).rejects.toMatchObject(fault(message));
  });

  it("is a file or a stream whose counts disagree", async () => {
    const types = file("types.arrow");
    const [slice] = await scanAll(format, types);
    const message = (await messagesOf(types)).find(({ kind }) => kind === "batch");
    const { metadata, start, rows } = message!;
    // The record batch is the table in slot 8 of its message; its rows and nodes in slots 4 and 6.
    const batch = new FlatTable(metadata, 0).table(8)!;
    const inFile = start + 8;
    const length = inFile + batch.place(4)!;
    const nodes = inFile + vectorStart(metadata, batch.place(6)!);
    const batches = footerVector(types, 10);
    const fields = footerStart(types) + schemaFields(types);
    expect([types.readInt32LE(length), types.readInt32LE(nodes + 4)]).toEqual([rows, rows]);
    for (const [at, count, message] of [
      [length, 0, "it cannot have 0 rows"],
      [length, 2, "it cannot have 2 rows"],
      [nodes + 4 + 16, 2, "column small: it has 2 of 3 values"],
      [nodes + 4 + 16, 4, "column small: it has 4 of 3 values"],
      [nodes + 4 + 24, 0, "column small: it has 1 nulls, and says 0"],
      [nodes, 1, "parts of columns"],
      [batches, 0, `it leaves out the batch at ${start}`],
      [batches + 4 + 16, 8, `no such batch lies at byte ${start}`],
      [fields, 3, "parts of columns, not 3 as its schema"],
    ] as const) {
      await expect(readAll(withInt32(types, at, count))).rejects.toMatchObject(fault(message));
    }
    const lines = file("types.arrows");
    const [first] = await messagesOf(lines);
    await expect(readAll(withInt32(lines, first!.start + 4, 0))).rejects.toMatchObject(
      fault("bytes follow the end of its stream"),
    );
    expect(await readAll(types)).toHaveLength(slice!.rows);
  });

  it("is a damaged batch, told with its place", async () => {
    const [slice] = await scanAll(format, whole);
    // In the midst of the first batch's compressed buffers, as it was planned.
    const at = whole.indexOf(Buffer.from("04224d18", "hex"), slice!.start);
    const content = withByte(whole, at, 0);
    await expect(readAll(content)).rejects.toMatchObject(
      fault(`record batch at bytes ${slice!.start} to `),
    );
  });

  it("never is anything but refused, or another value: whatever byte is changed", async () => {
    const small = file("deltas.arrows");
    const codes = new Set<unknown>();
    for (let at = 0; at < small.length; at += 13) {
      try {
        for (const { raw } of await readAll(withByte(small, at, 0xff))) JSON.parse(raw);
      } catch (error) {
        codes.add((error as { code?: unknown }).code ?? error);
      }
    }
    expect([...codes]).toEqual(["INPUT_UNREADABLE"]);
  });

  it("a text that is no UTF-8, is a fault of its row", async () => {
    const plain = file("types.arrow");
    const at = plain.indexOf(Buffer.from("Grüße"));
    const rows = await readAll(withByte(plain, at, 0xff));
    expect(rows.map(({ error }) => error?.code)).toEqual(["UTF8_INVALID", undefined, undefined]);
    expect(rows[0]!.error!.place).toMatchObject({ file: "in", line: 1, field: "text" });
  });

  it("what changed since it was planned is a changed input", async () => {
    const [slice] = await scanAll(format, whole);
    const options = { maxLineBytes: 1e6 };
    for (const content of [withByte(whole, whole.length - 40, 0xff), whole.subarray(0, -10)]) {
      const rows = Array.fromAsync(format.read(readerOf(content), slice!, 0, options));
      await expect(rows).rejects.toMatchObject({ code: "INPUT_CHANGED" });
    }
  });
});

async function messagesOf(content: Buffer): Promise<Message[]> {
  const arrow = await openArrow(readerOf(content), "in");
  return Array.fromAsync(arrow.messages());
}

/** Where a list of a flatbuffer begins, with its count. */
function vectorStart(bytes: Buffer, place: number): number {
  return place + bytes.readUInt32LE(place);
}

function footerVector(content: Buffer, slot: number): number {
  const footer = content.subarray(footerStart(content));
  return footerStart(content) + vectorStart(footer, new FlatTable(footer, 0).place(slot)!);
}

function schemaFields(content: Buffer): number {
  const footer = content.subarray(footerStart(content));
  return vectorStart(footer, new FlatTable(footer, 0).table(6)!.place(6)!);
}

function withInt32(content: Buffer, at: number, count: number): Buffer {
  const changed = Buffer.from(content);
  changed.writeInt32LE(count, at);
  return changed;
}

function footerStart(content: Buffer): number {
  return content.length - 10 - content.readInt32LE(content.length - 10);
}

function withByte(content: Buffer, at: number, byte: number): Buffer {
  const changed = Buffer.from(content);
  changed[at] = byte;
  return changed;
}
