import { describe, expect, it } from "vitest";
import { inputFormats } from "../../../src/data/formats/format.ts";
import { formatFor, formatNames, isUncut } from "../../../src/data/formats/registry.ts";

describe("formatFor", () => {
  it("knows each format that a job may name", () => {
    expect(formatNames.toSorted()).toEqual(inputFormats.toSorted());
  });

  it("goes by the ending, unless a format is named", () => {
    expect(formatFor("/a.b/x.JSONL").name).toBe("jsonl");
    expect(formatFor("x.ndjson").name).toBe("jsonl");
    expect(formatFor("x.json").name).toBe("json");
    expect(formatFor("x.txt").name).toBe("text");
    expect(formatFor("x.json", "jsonl").name).toBe("jsonl");
    expect(formatFor("x.csv").name).toBe("csv");
    expect(formatFor("x.feather").name).toBe("arrow");
    expect(formatFor("a/photo.JPG").name).toBe("files");
  });

  it("looks before the ending of a compression", () => {
    expect(formatFor("x.JSONL.GZ").name).toBe("jsonl");
    expect(formatFor("https://there/x.tsv.zst?token=a.b").name).toBe("tsv");
    expect(isUncut({ path: "x.tsv.br", format: "tsv" })).toBe(true);
    expect(isUncut({ path: "x.tsv", format: "tsv" })).toBe(false);
    expect(isUncut({ path: "x.gz", format: "files" })).toBe(false);
  });

  it("names what is known and what was likely meant", () => {
    const known = `set input.format to one of ${formatNames.join(", ")}`;
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
      hint: `did you mean .json? Else ${known}`,
    });
    expect(error("x", "jsnl")).toMatchObject({ hint: expect.stringContaining("jsonl?") });
    expect(error("x.xlsx")).toMatchObject({ hint: known });
    expect(error("x.csv.bz2")).toMatchObject({
      message: expect.stringContaining("ending .bz2"),
      hint: "decompress it, or compress it to .gz, .zst, .br",
    });
    expect(error("x.csv.gz.gz")).toMatchObject({
      hint: "decompress it once: it seems to be compressed twice",
    });
    expect(error("README")).toMatchObject({ message: expect.stringContaining("no ending") });
  });
});
