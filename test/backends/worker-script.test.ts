import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { workerScript } from "../../src/backends/joining/worker-script.ts";
import { type JobInput, jobSchema } from "../../src/run/job/schema.ts";

const given = {
  input: "s3://bucket/in.jsonl",
  model: { engine: "fake" as const },
  prompt: "p",
  output: { path: "s3://bucket/out" },
};

/** The words with which the worker of an index is started, by a shell. */
function started(
  shares: readonly number[],
  index: number,
  location = "s3://bucket/out",
  more: Partial<JobInput> = {},
) {
  const job = jobSchema.parse({ ...given, ...more });
  const work = { job, location, generation: 2, takers: 9, shares };
  const script = workerScript({ ...work, program: ["printf", "%s\n"] }, "INDEX", {});
  const options = { env: { INDEX: `${index}`, PATH: process.env.PATH }, encoding: "utf8" as const };
  return execFileSync("/bin/sh", ["-ec", script], options).trimEnd().split("\n");
}

describe("workerScript", () => {
  it("gives each index its share", () => {
    const rest = ["--prepare", "--generation", "2"];
    const words = (share: string) => ["worker", "s3://bucket/out", "--share", share, ...rest];
    expect(started([0, 1, 2], 2)).toEqual(words("2/9"));
    expect([0, 1, 2].map((index) => started([3, 5, 8], index))).toEqual(
      ["3/9", "5/9", "8/9"].map(words),
    );
    // More than a shell names by one digit.
    const many = Array.from({ length: 20 }, (_, at) => at + 1);
    expect(started(many, 11)).toEqual(words("12/9"));
  });

  it("tells each worker the job's object store", () => {
    const store = { endpoint: "https://s3.test/?a&b", region: "de", pathStyle: false } as const;
    expect(started([0], 0, "s3://b/out", { store }).slice(1, 9)).toEqual([
      ...["s3://b/out", "--store.endpoint", "https://s3.test/?a&b", "--store.region", "de"],
      ...["--store.pathStyle", "false", "--share"],
    ]);
  });

  it("keeps a place a word, whatever its letters", () => {
    expect(started([0], 0, "s3://b/it's $HOME `id`")[1]).toBe("s3://b/it's $HOME `id`");
  });
});
