import { describe, expect, it } from "vitest";
import { trialOutput, withAbsolutePaths } from "../../../src/run/job/paths.ts";
import { jobOf } from "../run-fixture.ts";

const rules = { baseOf: () => "/jobs", userDirectory: "/home/me" };

describe("withAbsolutePaths", () => {
  it("resolves inputs, outputs and the error file, each from its own directory", () => {
    const job = jobOf({
      input: [{ path: "in.jsonl" }, { path: "-" }, { path: "~/rows.jsonl" }],
      output: { path: "out.jsonl", format: "openai-batch", errorFile: "errors.jsonl" },
    });
    const baseOf = (path: readonly string[]) => `/${path.join("-")}`;
    const { input, output } = withAbsolutePaths(job, { ...rules, baseOf });
    expect(input.map(({ path }) => path)).toEqual([
      "/input-0-path/in.jsonl",
      "-",
      "/home/me/rows.jsonl",
    ]);
    expect(output).toMatchObject({
      path: "/output-path/out.jsonl",
      errorFile: "/output-errorFile/errors.jsonl",
    });
    expect(withAbsolutePaths(jobOf(), rules).output).not.toHaveProperty("errorFile");
  });

  it("resolves models that are files, and leaves addresses alone", () => {
    const nameOf = (name: string) =>
      withAbsolutePaths(jobOf({ model: { engine: "llama", name } }), rules).model.name;
    expect(nameOf("./m.gguf")).toBe("/jobs/m.gguf");
    expect(nameOf("hf:owner/repo/m.gguf")).toBe("hf:owner/repo/m.gguf");
    expect(nameOf("smollm2")).toBe("smollm2");
  });
});

describe("trialOutput", () => {
  it("puts the suffix before the ending", () => {
    expect(trialOutput("/a/out", "limit5")).toBe("/a/out-limit5");
    expect(trialOutput("/a/out/", "limit5")).toBe("/a/out-limit5");
    expect(trialOutput("/a/r.jsonl", "sample3")).toBe("/a/r-sample3.jsonl");
    expect(trialOutput("/a/r.csv.gz", "sample3")).toBe("/a/r-sample3.csv.gz");
    expect(trialOutput("/a/{stem}.new.json", "limit5")).toBe("/a/{stem}.new-limit5.json");
  });
});
