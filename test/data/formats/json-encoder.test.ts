import { describe, expect, it } from "vitest";
import { jsonEncoder } from "../../../src/data/formats/json-encoder.ts";
import { written } from "./writing.ts";

describe("a JSON array", () => {
  it("holds rows as they stand, a row a line", async () => {
    const lines = ['{"id": 9007199254740993}', '{"x":1.0}', "{}", '{"y":"]"}'];
    const text = (await written(jsonEncoder(), lines)).toString();
    expect(text).toBe(`[\n${lines.join(",\n")}\n]\n`);
    expect(JSON.parse(text)).toHaveLength(4);
  });

  it("is empty without rows", async () => {
    expect((await written(jsonEncoder(), [])).toString()).toBe("[]\n");
  });
});
