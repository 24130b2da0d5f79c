import { describe, expect, it } from "vitest";
import { formatFor } from "../../../src/data/formats/registry.ts";

describe("formatFor", () => {
  it("goes by the ending, unless a format is named", () => {
    expect(formatFor("/a.b/x.JSONL").name).toBe("jsonl");
    expect(formatFor("x.ndjson").name).toBe("jsonl");
    expect(formatFor("x.json").name).toBe("json");
    expect(formatFor("x.txt").name).toBe("text");
    expect(formatFor("x.json", "jsonl").name).toBe("jsonl");
  });

  it("names what is known and what was likely meant", () => {
    const error = (...call: Parameters<typeof formatFor>) => {
      try {
        return formatFor(...call);
      } catch (thrown) {
        return thrown;
      }
    };
    expect(error("data/x.jsn")).toMatchObject({
      code: "INPUT_FORMAT",
      message: expect.stringContaining("data/x.jsn"),
      hint: "did you mean .json? Else set input.format to one of jsonl, json, text, openai-batch",
    });
    expect(error("x", "jsnl")).toMatchObject({ hint: expect.stringContaining("jsonl?") });
    expect(error("x.parquet")).toMatchObject({
      hint: "set input.format to one of jsonl, json, text, openai-batch",
    });
    expect(error("README")).toMatchObject({ message: expect.stringContaining("no ending") });
  });
});
