import { describe, expect, it } from "vitest";
import { locateRun } from "../../../src/run/directory/locate.ts";

describe("locateRun", () => {
  it("takes a path without a known ending as the run directory", () => {
    const location = { directory: "/data/out", outside: "/data", mergedFile: null, pattern: null };
    expect(locateRun("/data/out")).toEqual(location);
    expect(locateRun("/data/out//")).toEqual(location);
    expect(locateRun("/data/out.v2").directory).toBe("/data/out.v2");
  });

  it("takes a whole bucket as the run directory", () => {
    expect(locateRun("s3://bucket/")).toEqual(locateRun("s3://bucket"));
    const { directory, outside } = locateRun("s3://bucket");
    expect({ directory, outside }).toEqual({ directory: "s3://bucket", outside: "s3://bucket" });
    expect(locateRun("s3://bucket/out").outside).toBe("s3://bucket");
  });

  it("takes a path with a known ending as a file, its state beside it", () => {
    const location = {
      directory: "/data/results.jsonl.sluice",
      outside: "/data",
      mergedFile: "results.jsonl",
      pattern: null,
    };
    expect(locateRun("/data/results.jsonl")).toEqual(location);
    for (const name of ["results.ndjson", "r.csv", "r.parquet", "r.json.zst", "r.tsv.gz"]) {
      expect(locateRun(`/data/${name}`).mergedFile).toBe(name);
      expect(locateRun(`/data/${name}.sluice`)).toEqual(locateRun(`/data/${name}`));
    }
  });

  it("takes a path with placeholders as many files, below the folder that it begins with", () => {
    const location = {
      directory: "/data/out/{dir}/{stem}.new.json.sluice",
      outside: "/data/out",
      mergedFile: null,
      pattern: "{dir}/{stem}.new.json",
    };
    expect(locateRun("/data/out/{dir}/{stem}.new.json")).toEqual(location);
    expect(locateRun(location.directory)).toEqual(location);
  });

  it("finds the same run by the directory of its state", () => {
    const byState = locateRun("/data/results.jsonl.sluice");
    expect(byState).toEqual(locateRun("/data/results.jsonl"));
    // Completion in a shell puts a slash behind a directory.
    expect(locateRun("/data/results.jsonl.sluice/")).toEqual(byState);
  });

  it("takes a slash at the end as a directory whatever its name", () => {
    expect(locateRun("/data/results.jsonl/")).toEqual({
      directory: "/data/results.jsonl",
      outside: "/data",
      mergedFile: null,
      pattern: null,
    });
  });
});
