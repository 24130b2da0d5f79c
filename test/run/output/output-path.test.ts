import { describe, expect, it } from "vitest";
import {
  filledPattern,
  isPerRow,
  patternProblem,
  placeholdersOf,
  splitPattern,
} from "../../../src/run/output/output-path.ts";

describe("patterns of result files", () => {
  it("begin with a folder", () => {
    const cases: [path: string, folder: string, pattern: string][] = [
      ["/data/out/{stem}.json", "/data/out", "{stem}.json"],
      ["/data/out-{dir}/{stem}.json", "/data", "out-{dir}/{stem}.json"],
      ["/{stem}.json", "/", "{stem}.json"],
      ["s3://bucket/p/{id}.json", "s3://bucket/p", "{id}.json"],
      ["{stem}.json", ".", "{stem}.json"],
    ];
    for (const [path, folder, pattern] of cases) {
      expect(splitPattern(path), path).toEqual({ folder, pattern });
    }
  });

  it("are filled in, an empty folder leaving no slash behind", () => {
    const values = { stem: "a$&", dir: "", index: "7", id: "x" };
    expect(filledPattern("{dir}/{stem}-{index}.json", values)).toBe("a$&-7.json");
    expect(filledPattern("by/{dir}/{id}/{id}.json", values)).toBe("by/x/x.json");
    expect(filledPattern("{dir}/{stem}.json", { ...values, dir: "b/c" })).toBe("b/c/a$&.json");
  });

  it("name each row's file where they have what differs by row", () => {
    expect(placeholdersOf("{dir}/{stem}-{stem}.json")).toEqual(["dir", "stem"]);
    expect(isPerRow("{dir}/{stem}.json")).toBe(false);
    expect(isPerRow("{stem}/{id}.json")).toBe(true);
    expect(isPerRow("{index}.json")).toBe(true);
  });

  it("say what is wrong with them", () => {
    expect(patternProblem("out/{dir}/{stem}-{index}-{id}.csv.gz")).toBeUndefined();
    expect(patternProblem("out/{indx}.json")).toContain("did you mean {index}?");
    expect(patternProblem("out/{}.json")).toContain("has {}");
    expect(patternProblem("out/{stem.json")).toContain("a brace alone");
    expect(patternProblem("out/{stem}.txt")).toContain("must end as the files are written");
  });
});
