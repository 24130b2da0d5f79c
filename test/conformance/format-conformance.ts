import { describe, expect, it } from "vitest";
import type { CutRule } from "../../src/data/formats/format.ts";
import type { RowFormat } from "../../src/data/formats/row-format.ts";
import type { InputRow, Slice } from "../../src/data/row.ts";
import type { RandomReader } from "../../src/data/storage/storage.ts";
import { parseSpecials } from "../../src/foundation/exact-json.ts";
import type { JsonObject } from "../../src/foundation/json.ts";

/** A format of files to be tested. */
export interface FormatUnderTest {
  /** The format, reading so many bytes at a time where it takes that. */
  make(chunkBytes?: number): RowFormat;
  /** Rows do not lie one after another in the bytes of a file, so that ranges may overlap. */
  sharesBytes?: boolean;
  /** A file can only be read where its length is known. */
  needsLength?: boolean;
}

/** The content of a file, and what it means. */
export interface FormatSample {
  name: string;
  content: string | Uint8Array;
  /** The value of each row, or the code of its error. */
  rows: readonly (JsonObject | string)[];
  /** Longest record; default 1,000,000 bytes. */
  maxLineBytes?: number;
}

/**
 * Tests every promise of `RowFormat` on one implementation: that scan and read give the same rows
 * wherever a file is cut and however much of it is read at a time, each once; that a change is
 * noticed; that who leaves early leaves nothing behind.
 *
 * @example
 * const samples = [{ name: "two", content: '{"a":1}\n{"a":2}\n', rows: [{ a: 1 }, { a: 2 }] }];
 * formatConformance({ make: () => myFormat() }, samples);
 */
export function formatConformance(format: FormatUnderTest, samples: readonly FormatSample[]): void {
  describe(`format conformance: ${format.make().name}`, () => {
    for (const sample of samples) {
      const trial = { format, sample };
      for (const clauses of [rowClauses, columnClauses, changeClauses]) clauses(trial);
    }
  });
}

interface Trial {
  format: FormatUnderTest;
  sample: FormatSample;
}

const file = "sample";

const rowClauses = ({ format, sample }: Trial): void => {
  const { name, content, rows } = sample;

  it(`${name}: gives each row once, in order, at every cut and size of reads`, async () => {
    for (const chunkBytes of chunkSizesFor(content)) {
      for (const everyRows of [1, 2, 3, 1000]) {
        for (const firstCutRows of [everyRows, 1]) {
          const made = format.make(chunkBytes);
          const slices = await scanAll(made, sample, { firstCutRows, everyRows });
          expect(faultOfCut(slices, format, sample)).toBe(undefined);
          const read = await readAll(made, sample, slices);
          expect(read.map(brief)).toEqual([...rows]);
          expect(read.map((row) => row.index)).toEqual(rows.map((_, index) => index));
        }
      }
    }
  });

  it(`${name}: cuts exactly where it may not choose`, async () => {
    const slices = await scanAll(format.make(), sample, { firstCutRows: 2, everyRows: 3 });
    const sizes = slices.map((slice) => slice.rows);
    expect(sizes).toEqual(sizesOf(rows.length, 2, 3));
  });

  it(`${name}: has of each row the text that its value is made of, or its error`, async () => {
    const made = format.make();
    const slices = await scanAll(made, sample, { firstCutRows: 2, everyRows: 2 });
    for (const row of await readAll(made, sample, slices)) {
      expect((row.value === undefined) !== (row.error === undefined)).toBe(true);
      if (row.value) expect(parseSpecials(row.raw)).toEqual(row.value);
      expect([row.file, row.line >= 1]).toEqual([file, true]);
      if (row.error) expect([row.error.place.file, row.error.scope]).toEqual([file, "row"]);
    }
  });

  it(`${name}: gives the same texts to a reader that needs no values`, async () => {
    const made = format.make();
    const slices = await scanAll(made, sample, { firstCutRows: 2, everyRows: 2 });
    const whole = await readAll(made, sample, slices);
    const texts = await readAll(made, sample, slices, { parse: false });
    expect(texts.map((row) => row.raw)).toEqual(whole.map((row) => row.raw));
  });

  it(`${name}: is the same where the length of the file is not known`, async () => {
    if (format.needsLength) return;
    const made = format.make(64);
    const endless = { ...sample, hasLength: false };
    const slices = await scanAll(made, endless, { firstCutRows: 2, everyRows: 2 });
    expect(slices).toEqual(await scanAll(made, sample, { firstCutRows: 2, everyRows: 2 }));
    expect((await readAll(made, endless, slices)).map(brief)).toEqual([...rows]);
  });

  it(`${name}: can be left before the end`, async () => {
    const made = format.make(16);
    const [slice] = await scanAll(made, sample, { firstCutRows: 1000, everyRows: 1000 });
    if (!slice) return;
    const counted = countedReader(readerOf(sample));
    for await (const _ of made.read(counted.reader, slice, 0, optionsOf(sample))) break;
    const reads = counted.reads();
    for (let turn = 0; turn < 100; turn++) await Promise.resolve();
    expect(counted.reads()).toBe(reads);
    for await (const _ of made.scan(counted.reader, file, ruleOf(sample, 1, 1))) break;
    expect(counted.isIdle()).toBe(true);
  });
};

const columnClauses = ({ format, sample }: Trial): void => {
  const { name, rows } = sample;
  const values = rows.filter((row) => typeof row !== "string");

  it(`${name}: keeps the columns that are asked for, in their order`, async () => {
    const made = format.make();
    const names = [...new Set(values.flatMap((value) => Object.keys(value)))];
    const columns = names.filter((_, at) => at % 2 === 0).reverse();
    if (columns.length === 0) return;
    const slices = await scanAll(made, sample, { firstCutRows: 2, everyRows: 2, columns });
    const read = await readAll(made, sample, slices, { columns });
    const expected = rows.map((row) => (typeof row === "string" ? row : only(row, columns)));
    expect(read.map(brief)).toEqual(expected);
    for (const row of read) {
      if (row.value === undefined) continue;
      const kept = Object.keys(JSON.parse(row.raw) as JsonObject).filter(isNamed);
      expect(kept).toEqual(columns.filter((each) => isNamed(each) && kept.includes(each)));
    }
  });

  it(`${name}: says columns that its rows have, where it says any`, async () => {
    const made = format.make();
    if (!made.columns || values.length === 0) return;
    const said = new Set((await made.columns(readerOf(sample), file)).map((column) => column.name));
    const missing = values.flatMap((value) => Object.keys(value)).filter((each) => !said.has(each));
    expect(missing).toEqual([]);
  });

  it(`${name}: counts rows without a pass as it does with one, where it does`, async () => {
    const made = format.make();
    if (!made.rowCount) return;
    expect(await made.rowCount(readerOf(sample), file)).toBe(rows.length);
  });
};

const changeClauses = ({ format, sample }: Trial): void => {
  const content = Buffer.from(sample.content as string);

  it(`${sample.name}: notices bytes of a slice that are others than planned`, async () => {
    const made = format.make(64);
    const slices = await scanAll(made, sample, { firstCutRows: 1, everyRows: 2 });
    for (const slice of slices) {
      for (const at of new Set([slice.start, (slice.start + slice.end) >> 1, slice.end - 1])) {
        if (at < slice.start || at >= slice.end) continue;
        const changed = Buffer.from(content);
        changed[at]! ^= 1;
        const now = { ...sample, content: changed };
        expect(await codeOf(readAll(made, now, [slice]))).toBe("INPUT_CHANGED");
      }
    }
  });

  it(`${sample.name}: notices that a file has become shorter`, async () => {
    const made = format.make(64);
    const slices = await scanAll(made, sample, { firstCutRows: 1000, everyRows: 1000 });
    const last = slices.at(-1);
    if (!last || last.end === 0) return;
    const now = { ...sample, content: content.subarray(0, last.end - 1) };
    expect(await codeOf(readAll(made, now, [last]))).toBe("INPUT_CHANGED");
  });
};

/** Sizes by which every border of a short sample falls between two reads at least once. */
function chunkSizesFor(content: string | Uint8Array): (number | undefined)[] {
  return content.length <= 4096 ? [1, 2, 3, 5, 8, 64, undefined] : [997, undefined];
}

function sizesOf(rows: number, first: number, every: number): number[] {
  const sizes: number[] = [];
  for (let left = rows; left > 0; left -= sizes.at(-1)!) {
    sizes.push(Math.min(left, sizes.length === 0 ? first : every));
  }
  return sizes;
}

/** What is wrong with how a file was cut. */
function faultOfCut(
  slices: readonly Slice[],
  { sharesBytes = false }: FormatUnderTest,
  { content, rows }: FormatSample,
): string | undefined {
  const bytes = Buffer.from(content as string).length;
  if (slices.reduce((sum, slice) => sum + slice.rows, 0) !== rows.length) return "other rows";
  if (slices.some((slice) => slice.rows < 1 || slice.start > slice.end)) return "an empty slice";
  if (slices.some((slice) => !/^[\da-f]{64}$/.test(slice.sha256))) return "no checksum";
  if (slices.length === 0 || sharesBytes) return undefined;
  const borders = slices.slice(1).every((slice, at) => slice.start === slices[at]!.end);
  if (!borders || slices[0]!.start !== 0) return "a gap between slices";
  return slices.at(-1)!.end === bytes ? undefined : "the end is missing";
}

interface Read {
  parse?: boolean;
  columns?: readonly string[];
}

type Content = FormatSample & { hasLength?: boolean };

async function scanAll(
  format: RowFormat,
  sample: Content,
  cut: Pick<CutRule, "firstCutRows" | "everyRows" | "columns">,
): Promise<Slice[]> {
  const slices: Slice[] = [];
  const rule = { ...ruleOf(sample, cut.firstCutRows, cut.everyRows), columns: cut.columns };
  for await (const range of format.scan(readerOf(sample), file, rule)) {
    slices.push({ file, format: format.name, ...range });
  }
  return slices;
}

async function readAll(
  format: RowFormat,
  sample: Content,
  slices: readonly Slice[],
  read: Read = {},
): Promise<InputRow[]> {
  const all: InputRow[] = [];
  for (const slice of slices) {
    const before = all.length;
    const options = { ...optionsOf(sample), ...read };
    for await (const rows of format.read(readerOf(sample), slice, before, options)) {
      all.push(...rows);
    }
    if (all.length - before !== slice.rows) throw new Error("a slice has other rows than cut");
  }
  return all;
}

function ruleOf({ maxLineBytes = 1_000_000 }: FormatSample, first: number, every: number) {
  return { maxLineBytes, firstCutRows: first, everyRows: every };
}

function optionsOf({ maxLineBytes = 1_000_000 }: FormatSample): { maxLineBytes: number } {
  return { maxLineBytes };
}

function readerOf({ content, hasLength = true }: Content): RandomReader {
  const bytes = Buffer.from(content as string);
  return {
    bytes: hasLength ? bytes.length : Number.POSITIVE_INFINITY,
    read: async (offset, length) => bytes.subarray(offset, offset + length),
    close: async () => {},
  };
}

function countedReader(reader: RandomReader) {
  let reads = 0;
  let open = 0;
  const counted: RandomReader = {
    bytes: reader.bytes,
    close: () => reader.close(),
    async read(offset, length) {
      reads++;
      open++;
      const data = await reader.read(offset, length);
      open--;
      return data;
    },
  };
  return { reader: counted, reads: () => reads, isIdle: () => open === 0 };
}

/** What a sample says of a row. */
function brief(row: InputRow): JsonObject | string {
  return row.value ?? row.error?.code ?? "neither value nor error";
}

/** Names of which an object keeps the order: whole numbers come first, whatever was written. */
function isNamed(name: string): boolean {
  return !/^\d+$/.test(name);
}

function only(value: JsonObject, columns: readonly string[]): JsonObject {
  const kept = columns.filter((name) => Object.hasOwn(value, name));
  return Object.fromEntries(kept.map((name) => [name, value[name]!]));
}

async function codeOf(action: Promise<unknown>): Promise<unknown> {
  try {
    await action;
    return "no error";
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
}
