import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type Column, ColumnTally } from "../../../../src/data/columns.ts";
import {
  type Carrying,
  carriedGroups,
} from "../../../../src/data/formats/parquet/carried-groups.ts";
import { parquetEncoder } from "../../../../src/data/formats/parquet/encoder.ts";
import { readFooter } from "../../../../src/data/formats/parquet/footer.ts";
import type { PageCompression } from "../../../../src/data/formats/parquet/page-codecs.ts";
import { parquetFormat } from "../../../../src/data/formats/parquet/parquet.ts";
import type { Slice } from "../../../../src/data/row.ts";
import { type ExactRow, parseExactly } from "../../../../src/foundation/exact-json.ts";
import { limits } from "../../../../src/foundation/limits.ts";
import { readerOf } from "../reading.ts";
import { differences, pyarrowPython } from "./pyarrow.ts";
import { encodedFile, readAll, slicesOf } from "./reading.ts";

const golden = join(import.meta.dirname, "../../../golden/parquet");
const folder = mkdtempSync(join(tmpdir(), "sluice-carried-"));
afterAll(() => rmSync(folder, { recursive: true }));
const format = parquetFormat();

const fileNamed = (name: string) => readFileSync(join(golden, `${name}.parquet`));

interface Carried {
  file: Buffer;
  /** What was written, as lines of the rows. */
  lines: string[];
  /** Whether the columns of each stretch were taken over. */
  stretches: boolean[];
}

interface CarryOptions {
  /** What is added to row `at`, as JSON text. */
  answerOf?: (at: number) => string;
  field?: string;
  pages?: PageCompression;
  slices?: Slice[];
  carrying?: Partial<Carrying>;
  /** Columns of the file that is written; default those of its rows. */
  columns?: readonly Column[];
}

/** Copies a file with a field more, as an attempt does. */
async function carry(content: Uint8Array, options: CarryOptions = {}): Promise<Carried> {
  const {
    answerOf = (at) => `"no. ${at}"`,
    field = "answer",
    pages = "snappy",
    carrying,
  } = options;
  const rows = await readAll(content);
  const lines = rows.map(({ raw }, at) => `${raw.slice(0, -1)},"${field}":${answerOf(at)}}`);
  const known = await format.columns!(readerOf(content), "in.parquet");
  const tally = new ColumnTally(known.filter(({ name }) => name !== field));
  for (const line of lines) tally.add(parseExactly(line) as ExactRow);
  const { columns = tally.columns(), slices = await slicesOf(content, { everyRows: 1e6 }) } =
    options;
  const encoder = parquetEncoder({ columns }, pages);
  const pieces: Buffer[] = [];
  const take = (some: Iterable<Uint8Array>) => {
    // What is given may be overwritten later.
    for (const piece of some) pieces.push(Buffer.from(piece));
  };
  const stretches: boolean[] = [];
  let at = 0;
  for (const slice of slices) {
    for await (const stretch of carriedGroups(readerOf(content), slice, {
      kept: undefined,
      columns,
      isWritten: (name) => name === field,
      areWhole: () => true,
      minGroupBytes: 0,
      ...carrying,
    })) {
      if (stretch.carried) for await (const some of encoder.carry!(stretch.carried)) take(some);
      for (const line of lines.slice(at, at + stretch.rows)) take(await encoder.add([line]));
      at += stretch.rows;
      stretches.push(stretch.carried !== undefined);
    }
  }
  take(await encoder.end());
  return { file: Buffer.concat(pieces), lines, stretches };
}

const rawsOf = async (file: Uint8Array) => (await readAll(file)).map(({ raw }) => raw);

const names = ["pyarrow-v1-zstd", "pyarrow-v2-gzip", "pyarrow-brotli", "pyarrow-lz4"] as const;
const everyName = [...names, "pyarrow-none", "pandas", "duckdb"] as const;
const everyPages = ["snappy", "gzip", "zstd", "none"] as const;

describe("columns that are taken over", () => {
  it.each(everyName.flatMap((name) => everyPages.map((pages) => [name, pages] as const)))(
    "give the rows that the input has: %s to %s",
    async (name, pages) => {
      const { file, lines, stretches } = await carry(fileNamed(name), { pages });
      expect(stretches).toContain(true);
      expect(await rawsOf(file)).toEqual(lines);
      const { groups } = await readFooter(readerOf(file), "out.parquet");
      const codec = { snappy: "SNAPPY", gzip: "GZIP", zstd: "ZSTD", none: "UNCOMPRESSED" }[pages];
      const codecs = new Set(groups.flatMap(({ columns }) => columns.map((it) => it.codec)));
      expect([...codecs]).toEqual([codec]);
    },
  );

  it("keep what the file says of their bounds", async () => {
    const content = fileNamed("duckdb");
    const { file } = await carry(content);
    const boundsOf = async (of: Uint8Array) => {
      const { groups } = await readFooter(readerOf(of), "file");
      const columns = groups.flatMap((group) => group.columns);
      return columns.map(({ path_in_schema: path, type, statistics }) => {
        const { min_value: min, max_value: max } = statistics ?? {};
        return { column: path[0], type, min, max };
      });
    };
    const known = await format.columns!(readerOf(content), "in.parquet");
    const kinds = ["integer", "string", "date"];
    const names = known.filter(({ type }) => kinds.includes(type.kind)).map(({ name }) => name);
    const scalars = (await boundsOf(content)).filter(({ column }) => names.includes(column!));
    expect(scalars.map(({ min, max }) => min !== undefined && max !== undefined)).toContain(true);
    expect(await boundsOf(file)).toEqual(expect.arrayContaining(scalars));
  });

  it.each([
    ["pandas", ["n 1", "s 1", "at 1", "c 0", "__index_level_0__ 0"]],
    ["pyarrow-v1-zstd", ["id 0", "language 21"]],
    ["duckdb", []],
  ])(
    "keep the count of nulls where the writer of the file counts right: %s",
    async (name, kept) => {
      const { file } = await carry(fileNamed(name));
      const { groups } = await readFooter(readerOf(file), "out.parquet");
      const counts = groups[0]!.columns.flatMap(({ path_in_schema: path, statistics }) =>
        statistics?.null_count === undefined ? [] : [`${path.join(".")} ${statistics.null_count}`],
      );
      expect(counts.filter((count) => !count.startsWith("answer "))).toEqual(kept);
    },
  );

  it("are followed by answers in pages of bounded size", async () => {
    const lines = Array.from({ length: 40 }, (_, id) => `{"id":${id},"text":"text ${id}"}`);
    const long = "ü".repeat(limits.maxRowGroupChars / 10);
    const answerOf = (at: number) => (at % 9 === 0 ? "null" : `"${at}${long}"`);
    const { file, lines: all, stretches } = await carry(await encodedFile(lines), { answerOf });
    expect(stretches).toEqual([true]);
    expect(await rawsOf(file)).toEqual(all);
    const { groups } = await readFooter(readerOf(file), "out.parquet");
    expect(groups).toHaveLength(1);
    const { num_values, statistics } = groups[0]!.columns[2]!;
    expect([num_values, statistics?.null_count]).toEqual([40n, 5n]);
  });

  it("are followed by answers of every kind", async () => {
    const lines = Array.from({ length: 20 }, (_, id) => `{"id":${id},"answers":{"answer":${id}}}`);
    const content = await encodedFile(lines);
    const kinds: ((at: number) => string)[] = [
      (at) => `{"answer":${at},"list":[{"answer":"\\"answer\\":1}"},null]}`,
      (at) => `[${at},${at}]`,
      (at) => String(2n ** 60n + BigInt(at)),
      (at) => `"a \\"quoted\\" ,\\"answer\\":${at}} text"`,
      (at) => (at % 2 === 0 ? "true" : "null"),
      (at) => `${at}.5`,
      (at) => [`"x"`, "1", `{"a":1}`][at % 3]!,
    ];
    for (const answerOf of kinds) {
      const { file, lines: all, stretches } = await carry(content, { answerOf });
      expect(stretches).toEqual([true]);
      expect(await rawsOf(file)).toEqual(all);
    }
  });

  it("refuse answers that do not fit, and too many ones of several columns", async () => {
    const lines = Array.from({ length: 8 }, (_, id) => `{"id":${id}}`);
    const content = await encodedFile(lines);
    const known = await format.columns!(readerOf(content), "in.parquet");
    const column = (type: Column["type"]): Column => ({ name: "answer", type, nullable: false });
    await expect(
      carry(content, { columns: [...known, column({ kind: "boolean" })] }),
    ).rejects.toThrow('column answer of the file cannot hold "no. 0"');
    const long = "x".repeat(limits.maxRowGroupChars / 4);
    const answerOf = () => `{"a":1,"b":"${long}"}`;
    await expect(carry(content, { answerOf })).rejects.toThrow("several columns");
  });
});

describe("columns that are written anew", () => {
  const lines = Array.from({ length: 30 }, (_, id) => `{"id":${id},"text":"text ${id}"}`);

  it("are all where one lies in the file in another way than it is written", async () => {
    const content = await encodedFile(lines);
    const [id, text] = await format.columns!(readerOf(content), "in.parquet");
    const other: Column[] = [
      { ...id!, nullable: true },
      { ...id!, type: { kind: "integer", bits: 32, isSigned: true } },
      { ...id!, type: { kind: "number", bits: 64 } },
    ];
    for (const column of other) {
      const answer: Column = { name: "answer", type: { kind: "string" }, nullable: true };
      const {
        file,
        lines: all,
        stretches,
      } = await carry(content, { columns: [column, text!, answer] });
      expect(stretches).toEqual([false]);
      expect(await rawsOf(file)).toEqual(all);
    }
    const types = await carry(fileNamed("pyarrow-types"));
    expect(types.stretches).toEqual([false]);
    expect(await rawsOf(types.file)).toEqual(types.lines);
  });

  it("are those of small groups, of groups with failed rows, and of parts of groups", async () => {
    const content = await encodedFile(lines);
    const small = await carry(content, { carrying: { minGroupBytes: 1e6 } });
    const failed = await carry(content, { carrying: { areWhole: () => false } });
    const cut = await carry(content, { slices: await slicesOf(content, { everyRows: 20 }) });
    expect([small, failed, cut].map(({ stretches }) => stretches)).toEqual([
      [false],
      [false],
      [false, false],
    ]);
    for (const { file, lines: all } of [small, failed, cut]) {
      expect(await rawsOf(file)).toEqual(all);
    }
  });

  it("are those that the run writes, whatever the input has of that name", async () => {
    const content = await encodedFile(lines);
    const known = await format.columns!(readerOf(content), "in.parquet");
    const columns = known.filter(({ name }) => name === "id");
    columns.push({ name: "text", type: { kind: "string" }, nullable: false });
    const [slice] = await slicesOf(content);
    const encoder = parquetEncoder({ columns });
    const pieces: Uint8Array[] = [];
    const answered = lines.map((line) => line.replace('"text ', '"answer '));
    for await (const { carried } of carriedGroups(readerOf(content), slice!, {
      kept: undefined,
      columns,
      isWritten: (name) => name === "text",
      areWhole: () => true,
      minGroupBytes: 0,
    })) {
      expect([...carried!.columns.keys()]).toEqual(["id"]);
      for await (const some of encoder.carry!(carried!))
        pieces.push(...some.map((it) => Buffer.from(it)));
      pieces.push(...(await encoder.add(answered)));
    }
    pieces.push(...(await encoder.end()));
    expect(await rawsOf(Buffer.concat(pieces))).toEqual(answered);
  });

  it("are never of an input that has changed since it was planned", async () => {
    const content = await encodedFile(lines);
    const slices = await slicesOf(content);
    const { groups } = await readFooter(readerOf(content), "in.parquet");
    const changed = Buffer.from(content);
    changed[groups[0]!.end - 1]! ^= 1;
    const [slice] = slices;
    const carrying = { kept: undefined, columns: [], isWritten: () => false, areWhole: () => true };
    const columns = [
      ...(await format.columns!(readerOf(content), "in.parquet")),
      { name: "answer", type: { kind: "string" }, nullable: true } as const,
    ];
    const reading = carriedGroups(readerOf(changed), slice!, { ...carrying, columns });
    await expect(Array.fromAsync(reading)).rejects.toMatchObject({ code: "INPUT_CHANGED" });
  });
});

const command = pyarrowPython();

describe("pyarrow", () => {
  it("reads the same of what was taken over", async (context) => {
    context.skip(command === undefined, "no Python here has pyarrow; PYTHON may name one");
    const files: string[] = [];
    for (const [at, name] of everyName.entries()) {
      const after = join(folder, `${name}.parquet`);
      const pages = everyPages[at % everyPages.length]!;
      writeFileSync(after, (await carry(fileNamed(name), { pages })).file);
      files.push(join(golden, `${name}.parquet`), after);
    }
    expect(differences(command!, ...files)).toBe("");
  });
});
