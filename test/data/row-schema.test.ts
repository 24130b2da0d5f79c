import { describe, expect, it } from "vitest";
import type { InputRow } from "../../src/data/row.ts";
import { rowCheck, schemaFault } from "../../src/data/row-schema.ts";
import type { JsonObject } from "../../src/foundation/json.ts";

const schema: JsonObject = {
  properties: {
    id: { type: "integer", minimum: 1 },
    tags: { type: "array", items: { type: "string" } },
    count: { type: ["integer", "null"] },
    any: { type: ["integer", "number"] },
    kind: { enum: ["a", { type: "integer" }] },
  },
  required: ["id"],
};
const check = rowCheck(schema);

function faultOf(value: JsonObject | undefined): string | undefined {
  const row: InputRow = { index: 0, file: "in.csv", line: 7, raw: "" };
  return check(value === undefined ? row : { ...row, value })?.message;
}

describe("rowCheck", () => {
  it("takes rows that fit, with numbers of any size and fields it does not name", () => {
    const fitting: JsonObject[] = [
      { id: 1 },
      { id: 2 ** 60, tags: ["a"], count: null },
      { id: 1e300, other: {}, any: 1.5 },
    ];
    for (const value of fitting) expect(faultOf(value)).toBe(undefined);
  });

  it("names the first field that is wrong, and its place", () => {
    const said = (detail: string, field: string) =>
      `the row does not fit input.schema: ${detail} (in.csv:7, field ${field})`;
    expect(faultOf({})).toBe(said("it is missing", "id"));
    expect(faultOf({ id: "1" })).toBe(said('expected number, received string: "1"', "id"));
    expect(faultOf({ id: 1.5 })).toBe(said("expected a whole number: 1.5", "id"));
    expect(faultOf({ id: 1, tags: ["a", 2] })).toContain(
      "received number: 2 (in.csv:7, field tags.1)",
    );
    expect(faultOf({ id: 1, count: 0.5 })).toContain("field count");
    expect(faultOf({ id: 1, kind: "b" })).toContain("field kind");
  });

  it("leaves a row that failed already alone", () => {
    expect(faultOf(undefined)).toBe(undefined);
  });
});

describe("schemaFault", () => {
  it("says why something is no schema", () => {
    expect(schemaFault(schema)).toBe(undefined);
    expect(schemaFault({})).toBe(undefined);
    expect(schemaFault({ properties: { a: { type: "int" } } })).toBe(
      "is not a JSON Schema of a row: Unsupported type: int",
    );
    expect(schemaFault({ type: "array" })).toContain("a row is an object");
  });
});
