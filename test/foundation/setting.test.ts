import { describe, expect, it } from "vitest";
import { z } from "zod";
import { setting } from "../../src/foundation/setting.ts";

describe("setting", () => {
  it("marks a schema with kind and description, and both reach the JSON Schema", () => {
    const schema = z.strictObject({ rows: setting("layout", "Rows a task", z.int().default(5)) });
    const { properties } = z.toJSONSchema(schema, { io: "input" });
    expect(properties?.rows).toMatchObject({ kind: "layout", description: "Rows a task" });
  });

  it("leaves what the schema accepts as it was", () => {
    const schema = setting("answers", "A count", z.int().min(1).optional());
    expect([schema.parse(3), schema.parse(undefined)]).toEqual([3, undefined]);
    expect(schema.safeParse(0).success).toBe(false);
  });
});
