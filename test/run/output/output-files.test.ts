import { describe, expect, it } from "vitest";
import type { InputFile } from "../../../src/data/inputs.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { locateRun } from "../../../src/run/directory/locate.ts";
import { jobSchema } from "../../../src/run/job/schema.ts";
import { outputFiles } from "../../../src/run/output/output-files.ts";

interface Case {
  output: string;
  input?: string;
  perInputFile?: boolean;
  list?: boolean;
  prefixes?: Record<string, string>;
  /** Folders that the job allows besides. */
  folders?: string[];
  files: (string | [path: string, output: string])[];
}

function planned(given: Case) {
  const { output, input = "/data/*.jsonl", perInputFile, list, prefixes, folders, files } = given;
  const job = jobSchema.parse({
    input: { path: input, ...(list && { list, prefixes }) },
    ...(folders && { allow: { folders } }),
    model: { engine: "fake" },
    prompt: "x",
    output: { path: output, ...(perInputFile && { perInputFile }) },
  });
  const found = files.map((file): InputFile => {
    const [path, target] = typeof file === "string" ? [file] : file;
    const below = /^(.*?)\/[^/]*\*/.exec(input)?.[1] ?? undefined;
    const own = { path, below, bytes: 1, modifiedMs: 1, format: "jsonl", source: 0 };
    return target === undefined ? own : { ...own, output: target };
  });
  return outputFiles(found, { job, location: locateRun(output), ending: ".jsonl" });
}

const pathsOf = (given: Case) => planned(given)?.files.map(({ path }) => path);

function refusal(given: Case): string {
  try {
    planned(given);
  } catch (error) {
    if (error instanceof SluiceError) return `${error.code} ${error.message}; ${error.hint}`;
    throw error;
  }
  return "taken";
}

describe("result files by input", () => {
  it("are none where results are in parts or in one file", () => {
    expect(planned({ output: "/out", files: ["/data/a.jsonl"] })).toBeUndefined();
    expect(planned({ output: "/out/r.csv", files: ["/data/a.jsonl"] })).toBeUndefined();
  });

  it("have the name of their input with perInputFile, in the folders below the glob's own", () => {
    const files = ["/data/part_0.jsonl", "/data/x/part_1.json.gz", "/data/x/two.parts.csv"];
    const given = { output: "/out", input: "/data/**/*", perInputFile: true, files };
    expect(planned(given)?.base).toBe("run");
    expect(pathsOf(given)).toEqual(["part_0.jsonl", "x/part_1.jsonl", "x/two.parts.jsonl"]);
  });

  it("lie in folders of any names, where braces are no placeholders", () => {
    const files = ["/{a,b}/in/x/a.jsonl", "/{a,b}/in/b.jsonl"];
    const input = "/{a,b}/in/**/*.jsonl";
    const found = files.map((path): InputFile => {
      return { path, below: "/{a,b}/in", bytes: 1, modifiedMs: 1, format: "jsonl", source: 0 };
    });
    const plannedAt = (path: string, perInputFile = false) => {
      const output = { path, perInputFile };
      const job = jobSchema.parse({ input, output, model: { engine: "fake" }, prompt: "x" });
      const plan = outputFiles(found, { job, location: locateRun(path), ending: ".jsonl" });
      return [locateRun(path).directory, plan?.files.map((file) => file.path)];
    };
    const names = ["x/a.jsonl", "b.jsonl"];
    expect(plannedAt("/{a,b}/out", true)).toEqual(["/{a,b}/out", names]);
    expect(plannedAt("/{a,b}/out")).toEqual(["/{a,b}/out", undefined]);
    const pattern = "/{a,b}/out/{dir}/{stem}.jsonl";
    expect(plannedAt(pattern)).toEqual([`${pattern}.sluice`, names]);
    expect(locateRun(pattern).outside).toBe("/{a,b}/out");
    expect(() => plannedAt("out/{stm}.jsonl")).toThrow(/did you mean/);
    expect(() => plannedAt("/{a,b}/{stm}.jsonl")).toThrow(/did you mean/);
  });

  it("have the name that a pattern makes of it", () => {
    const files = ["/data/a.jsonl", "/data/b.v2.txt", "/data/c"];
    expect(planned({ output: "/out/{stem}.new.json", files })?.base).toBe("outside");
    expect(pathsOf({ output: "/out/{stem}.new.json", files })).toEqual([
      "a.new.json",
      "b.v2.new.json",
      "c.new.json",
    ]);
    const deep = ["/data/x/y/a.jsonl", "/data/b.jsonl"];
    const input = "/data/**/*.jsonl";
    expect(pathsOf({ output: "/out/{dir}/{stem}.csv", input, files: deep })).toEqual([
      "x/y/a.csv",
      "b.csv",
    ]);
    // Beside the input, where the pattern begins above it.
    expect(pathsOf({ output: "/data/{dir}/{stem}.new.csv", input, files: deep })).toEqual([
      "x/y/a.new.csv",
      "b.new.csv",
    ]);
    expect(pathsOf({ output: "/{dir}/{stem}.new.csv", input, files: deep })).toEqual([
      "data/x/y/a.new.csv",
      "data/b.new.csv",
    ]);
  });

  it("keep what only a row can tell", () => {
    const given = { output: "/out/{stem}/{id}-{index}.json", files: ["/data/a.jsonl"] };
    expect(planned(given)).toMatchObject({ isPerRow: true });
    expect(pathsOf(given)).toEqual(["a/{id}-{index}.json"]);
  });

  it("of web addresses and stores have their last name", () => {
    const files = ["https://host/x/a.jsonl?download=1", "s3://bucket/p/b.jsonl"];
    expect(pathsOf({ output: "/out/{stem}.csv", files })).toEqual(["a.csv", "b.csv"]);
  });

  it("are refused where two have one place, both named", () => {
    const given = { output: "/out/{stem}.csv", files: ["/data/x/a.jsonl", "/data/y/a.jsonl"] };
    expect(refusal(given)).toMatch(
      /^JOB_INVALID .*\/data\/x\/a.jsonl and of \/data\/y\/a.jsonl would both go to a.csv.*\{dir\}/,
    );
    const alike = { ...given, files: ["/data/x/A.jsonl", "/data/y/a.jsonl"] };
    expect(refusal(alike)).toContain("go to a.csv, which some file systems take for A.csv");
    const apart = { ...given, files: ["/data/x/A.jsonl", "/data/x/a.jsonl"] };
    expect(pathsOf(apart)).toEqual(["A.csv", "a.csv"]);
    // Files by row may have one pattern.
    expect(refusal({ ...given, output: "/out/{index}.csv" })).toBe("taken");
    const twice = { output: "/out/{stem}.csv", files: ["/data/a.jsonl", "/data/a.jsonl"] };
    expect(refusal(twice)).toContain("/data/a.jsonl is named twice");
  });

  it("are refused where readers would take them for no results", () => {
    const given = { output: "/out", perInputFile: true, files: ["/data/_a.jsonl"] };
    expect(refusal(given)).toContain("/data/_a.jsonl would give _a.jsonl");
  });
});

describe("result files by a list", () => {
  const folders = ["/results", "/elsewhere", "s3://bucket/p", "s3://one", "s3://two", "/r"];
  const list = { input: "/lists/0.txt", list: true, output: "/runs/out", folders };

  it("lie where the list says, from its own folder, and by name in the output otherwise", () => {
    const files: Case["files"] = [
      ["/data/a.jsonl", "../results/a.csv"],
      ["/data/b.jsonl", "/elsewhere/b.json"],
      "/data/c.jsonl",
    ];
    expect(planned({ ...list, files })).toMatchObject({ base: "/", isPerRow: false });
    expect(pathsOf({ ...list, files })).toEqual([
      "results/a.csv",
      "elsewhere/b.json",
      "runs/out/c.jsonl",
    ]);
    const near: Case["files"] = [
      ["/data/a.jsonl", "s3://bucket/p/a.csv"],
      ["/data/b.jsonl", "s3://bucket/p/q/b.csv"],
    ];
    expect(planned({ ...list, files: near })).toMatchObject({ base: "s3://bucket/p" });
    expect(pathsOf({ ...list, files: near })).toEqual(["a.csv", "q/b.csv"]);
  });

  it.each([
    ["/data/a.csv", "/data/a.csv"],
    ["a.csv", "/lists/a.csv"],
    ["/runs/out/../a.csv", "/runs/a.csv"],
    ["x/../../../etc/a.csv", "/etc/a.csv"],
    ["/mapped/../etc/a.csv", "/etc/a.csv"],
    ["s3://bucket/out/../secret/a.csv", "s3://bucket/out/../secret/a.csv"],
  ])("are refused where neither output nor job names the folder: %s", (target, shown) => {
    const prefixes = { "/m/": "/mapped/", "/s/": "s3://bucket/out/" };
    const refused = refusal({ ...list, prefixes, folders: [], files: [["/data/a.jsonl", target]] });
    expect(refused).toContain(`results of /data/a.jsonl to ${shown}, which does not lie below`);
    expect(refused).toContain("allow.folders");
  });

  it("lie below the output, an allowed folder, or where a prefix of the job leads", () => {
    const prefixes = { "/m/": "/mapped/" };
    for (const target of ["/runs/out/a.csv", "../runs/out/deep/a.csv", "/mapped/a.csv"]) {
      const given = { ...list, prefixes, folders: [] };
      expect(refusal({ ...given, files: [["/data/a.jsonl", target]] })).toBe("taken");
    }
  });

  it("are refused where they clash, lie in two stores, or have no known ending", () => {
    const both = (a: string, b: string): string =>
      refusal({
        ...list,
        files: [
          ["/data/a.jsonl", a],
          ["/data/b.jsonl", b],
        ],
      });
    expect(both("/r/x.csv", "/r/x.csv")).toContain("would both go to x.csv");
    expect(both("/r/x.csv", "/r/x.csv")).toContain("give each line of the list a place");
    expect(both("s3://one/x.csv", "s3://two/x.csv")).toContain("lie in different stores");
    expect(both("/r/x.csv", "s3://two/x.csv")).toContain("lie in different stores");
    expect(both("/r/x.csv", "/r/y.xlsx")).toContain("/r/y.xlsx (the place for /data/b.jsonl)");
    const files: Case["files"] = [["/data/a.jsonl", "/r/a.csv"]];
    for (const output of ["/runs/all.csv", "/runs/{stem}.csv"]) {
      expect(refusal({ ...list, output, files })).toContain("it needs a directory");
    }
  });
});
