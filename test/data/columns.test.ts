import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fits } from "../../src/data/column-fit.ts";
import { type Column, ColumnTally, type ColumnType, mergeColumns } from "../../src/data/columns.ts";
import { type ExactRow, parseExactly } from "../../src/foundation/exact-json.ts";
import { limits } from "../../src/foundation/limits.ts";

const integer: ColumnType = { kind: "integer", bits: 64, isSigned: true };
const number: ColumnType = { kind: "number", bits: 64 };
const string: ColumnType = { kind: "string" };
const json: ColumnType = { kind: "json" };

function tally(rows: readonly ExactRow[], known: readonly Column[] = []): Column[] {
  const columns = new ColumnTally(known);
  for (const row of rows) columns.add(row);
  return columns.columns();
}

/** The type of a column that holds these values. */
function typeOf(...values: ExactRow[string][]): ColumnType {
  return tally(values.map((a) => ({ a })))[0]!.type;
}

function column(name: string, type: ColumnType, nullable = false): Column {
  return { name, type, nullable };
}

/** The type that holds the values of both. */
function merged(a: ColumnType, b: ColumnType): ColumnType {
  return mergeColumns([column("a", a)], [column("a", b)])[0]!.type;
}

describe("merged columns", () => {
  it("have bits for what is signed and what is not", () => {
    const type = (bits: 8 | 16 | 32 | 64, isSigned: boolean): ColumnType => ({
      ...{ kind: "integer", bits, isSigned },
    });
    expect(merged(type(8, true), type(8, false))).toEqual(type(16, true));
    expect(merged(type(32, false), type(8, true))).toEqual(type(64, true));
    expect(merged(type(16, false), type(32, false))).toEqual(type(32, false));
  });
});

describe("ColumnTally", () => {
  it("tells the types of rows", () => {
    const rows = [
      { id: 1, text: "a", score: 0.5, ok: true, tags: ["x"], at: { x: 1, y: null } },
      { id: 2, text: "b", score: 1, ok: false, tags: [], at: { x: 2, y: "z" } },
    ];
    expect(tally(rows)).toEqual([
      column("id", integer),
      column("text", string),
      column("score", number),
      column("ok", { kind: "boolean" }),
      column("tags", { kind: "list", element: { type: string, nullable: false } }),
      column("at", { kind: "struct", fields: [column("x", integer), column("y", string, true)] }),
    ]);
  });

  it("says that a column may be null where a row lacks it or has null", () => {
    const columns = tally([
      { a: 1, b: 1, c: 1 },
      { a: 2, b: null },
      { a: 3, b: 1, d: 1 },
    ]);
    expect(columns.map(({ name, nullable }) => [name, nullable])).toEqual([
      ["a", false],
      ["b", true],
      ["c", true],
      ["d", true],
    ]);
  });

  it("makes JSON of what does not go together", () => {
    expect(typeOf(1, "a")).toEqual(json);
    expect(typeOf([1], { a: 1 })).toEqual(json);
    expect(typeOf(["a", 1])).toEqual({ kind: "list", element: { type: json, nullable: false } });
    expect(typeOf(null, null)).toEqual({ kind: "null" });
    expect(typeOf("half of a pair: \ud800")).toEqual(json);
  });

  it("keeps every digit of whole numbers", () => {
    expect(typeOf(1, 9007199254740993n)).toEqual({ ...integer, isWide: true });
    expect(typeOf(2n ** 64n - 1n)).toMatchObject({ bits: 64, isSigned: false });
    expect(typeOf(2n ** 64n)).toEqual(json);
    expect(typeOf(-1, 2n ** 63n)).toEqual(json);
    expect(typeOf(0.5, 9007199254740993n)).toEqual(json);
    expect(typeOf(0.5, 9007199254740991)).toEqual(number);
    expect(typeOf(1e300)).toEqual(number);
  });

  it("starts from what is known, and widens it only where it must", () => {
    const at: ColumnType = { kind: "timestamp", unit: "microseconds", isUtc: true };
    const known = [column("at", at), column("id", { ...integer, bits: 32 }), column("gone", json)];
    const fine = { at: "2024-02-29T01:02:03.000004Z", id: 7, gone: 1 };
    expect(tally([fine], known)).toEqual(known);
    expect(tally([], known)).toEqual(known);
    expect(tally([fine, { at: "soon", id: 2 ** 31 }], known)).toEqual([
      column("at", string),
      column("id", integer),
      column("gone", json, true),
    ]);
  });

  it("knows what a number of few bits holds", () => {
    const half = column("a", { kind: "number", bits: 16 });
    const values = [0, -0, 1.5, 2047, 65_504, 2 ** -24, 6.103515625e-5, -0.333251953125];
    expect(values.filter((value) => !fits(half, value))).toEqual([]);
    const others = [2049, 65_520, 0.1, 2 ** -25, 1 + 2 ** -11];
    expect(others.filter((value) => fits(half, value))).toEqual([]);
    expect(fits(column("a", { kind: "number", bits: 32 }), 0.1)).toBe(false);
  });

  it("makes JSON of objects with fields without end, and of depths without end", () => {
    const row = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`key${at}`, 1]));
    expect(typeOf(row(limits.maxStructFields)).kind).toBe("struct");
    expect(typeOf(row(limits.maxStructFields + 1))).toEqual(json);
    const parts = Array.from({ length: limits.maxStructFields + 1 }, (_, at) => ({ [at]: 1 }));
    expect(typeOf(...parts)).toEqual(json);
    const deep = parseExactly(`${"[".repeat(100_000)}${"]".repeat(100_000)}`);
    expect(JSON.stringify(typeOf(deep)).length).toBeLessThan(100 * limits.maxColumnDepth);
  });

  it("gives columns that hold every row", () => {
    const value = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.oneof(
          fc.constant(null),
          fc.boolean(),
          fc.integer(),
          fc.double({ noNaN: true, noDefaultInfinity: true }),
          fc.bigInt({ min: 2n ** 53n, max: 2n ** 65n }),
          fc.string({ unit: "binary", maxLength: 5 }),
        ),
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom("a", "b", "c"), tie("value")),
      ),
    })).value as fc.Arbitrary<ExactRow[string]>;
    const rows = fc.array(fc.dictionary(fc.constantFrom("a", "b", "c"), value), { maxLength: 6 });
    fc.assert(
      fc.property(rows, rows, (some, others) => {
        const all = [tally([...some, ...others]), mergeColumns(tally(some), tally(others))];
        for (const columns of all) {
          const rows = [...some, ...others];
          const isHeld = ({ name, ...column }: Column) =>
            rows.every((row) => fits(column, row[name] ?? null));
          expect(columns.filter((column) => !isHeld(column))).toEqual([]);
          expect(Object.keys(Object.assign({}, ...rows))).toHaveLength(columns.length);
        }
      }),
      { numRuns: 30 },
    );
  });
});

describe("mergeColumns", () => {
  it("keeps the order of the first, and makes optional what only one has", () => {
    const a = [column("x", string), column("y", integer)];
    const b = [column("z", number), column("y", integer)];
    expect(mergeColumns(a, b)).toEqual([
      column("x", string, true),
      column("y", integer),
      column("z", number, true),
    ]);
  });

  it("takes the narrowest type that holds both", () => {
    const bits = (size: 8 | 16 | 32 | 64, isSigned = true): ColumnType => ({
      kind: "integer",
      bits: size,
      isSigned,
    });
    const decimal = (precision: number, scale: number): ColumnType => ({
      kind: "decimal",
      precision,
      scale,
    });
    expect(merged(bits(8), bits(32))).toEqual(bits(32));
    expect(merged(bits(16, false), bits(8))).toEqual(bits(32));
    expect(merged(bits(32), { kind: "number", bits: 32 })).toEqual(number);
    expect(merged({ kind: "number", bits: 32 }, number)).toEqual(number);
    expect(merged(decimal(9, 2), decimal(10, 4))).toEqual(decimal(11, 4));
    expect(merged(decimal(9, 2), decimal(15, 9))).toEqual(number);
    expect(merged(decimal(9, 2), bits(32))).toEqual(number);
    expect(merged(decimal(20, 2), decimal(38, 2))).toEqual(decimal(38, 2));
    expect(merged(decimal(20, 2), decimal(38, 4))).toEqual(string);
    expect(merged({ kind: "date" }, string)).toEqual(string);
    expect(merged({ kind: "bytes", length: 4 }, { kind: "bytes" })).toEqual({ kind: "bytes" });
    expect(merged(json, number)).toEqual(json);
    expect(merged({ kind: "null" }, decimal(9, 2))).toEqual(decimal(9, 2));
  });

  it("merges times only where both fit one unit", () => {
    const at = (unit: "milliseconds" | "microseconds" | "nanoseconds", isUtc = true) =>
      ({ kind: "timestamp", unit, isUtc }) as ColumnType;
    expect(merged(at("milliseconds"), at("microseconds"))).toEqual(at("microseconds"));
    expect(merged(at("milliseconds"), at("nanoseconds"))).toEqual(string);
    expect(merged(at("milliseconds"), at("milliseconds", false))).toEqual(string);
    const hour = (unit: "milliseconds" | "nanoseconds", isUtc = true) =>
      ({ kind: "time", unit, isUtc }) as ColumnType;
    expect(merged(hour("milliseconds"), hour("nanoseconds"))).toEqual(hour("nanoseconds"));
    expect(merged(hour("milliseconds"), hour("milliseconds", false))).toEqual(string);
  });

  it("merges maps whose keys have the same form in JSON", () => {
    const map = (key: ColumnType, value: ColumnType): ColumnType => ({
      kind: "map",
      key,
      value: { type: value, nullable: false },
    });
    expect(merged(map(string, integer), map(string, number))).toEqual(map(string, number));
    expect(merged(map(string, integer), map(integer, integer))).toEqual(json);
  });
});
