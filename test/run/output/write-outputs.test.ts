import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { verifyRun } from "../../../src/run/seal/verify.ts";
import { type MemoryRuns, memoryRuns, willing } from "../memory-runs.ts";
import { errorOf, pathsOf } from "../run-fixture.ts";
import { refusing } from "../scripted-engine.ts";

const rowsIn = (name: string, count: number) =>
  Array.from({ length: count }, (_, at) => `{"id":"${name}${at}","text":"${name} ${at}"}`);

/** Runs over `a.jsonl` of three rows, `b.jsonl` of two, an empty one, and one that is an object. */
function runsOf(output: JobInput["output"], input = "*.json*"): MemoryRuns {
  const runs = memoryRuns([]);
  const folder = join(dirname(runs.input), "in");
  mkdirSync(folder);
  const put = (name: string, lines: string[]) =>
    writeFileSync(join(folder, name), lines.map((line) => `${line}\n`).join(""));
  put("a.jsonl", rowsIn("a", 3));
  put("b.jsonl", rowsIn("b", 2));
  put("c.json", ['{"id":"c0","text":"c 0"}']);
  put("d.jsonl", []);
  const job = runs.job();
  const changes: Partial<JobInput> = {
    input: { path: join(folder, input), id: "id" },
    shard: { rows: 2 },
    output,
  };
  runs.job = (more = {}) => ({ ...memoryJob(runs, { ...changes, ...more }), env: job.env });
  return runs;
}

const memoryJob = (runs: MemoryRuns, changes: Partial<JobInput>) =>
  Object.getPrototypeOf(runs).job.call(runs, changes);

const textAt = async (runs: MemoryRuns, location: string, path: string) =>
  Buffer.from(await runs.store(location).read(path)).toString();

async function damagesOf(runs: MemoryRuns): Promise<string[]> {
  const { directory, outside } = runs.location();
  const open = (location: string) => runs.store(location);
  const { damages } = await verifyRun(open(directory), open(outside), open);
  return damages.map(({ file, problem }) => `${file}: ${problem}`);
}

const resultsIn = async (runs: MemoryRuns, location: string) =>
  (await pathsOf(runs.store(location), "")).filter(
    (path) => !/^_(sluice|SUCCESS|manifest|dead)|\.sluice\//.test(path),
  );

describe("files by input", () => {
  it("hold the results of their input each, also where there is none", async () => {
    const runs = runsOf({ path: "/runs/out", perInputFile: true }, "*.jsonl");
    await runs.run(refusing([1]));
    expect(await resultsIn(runs, "/runs/out")).toEqual(["a.jsonl", "b.jsonl", "d.jsonl"]);
    expect(await textAt(runs, "/runs/out", "a.jsonl")).toBe(
      '{"id":"a0","text":"a 0","answer":"answer 0"}\n{"id":"a2","text":"a 2","answer":"answer 2"}\n',
    );
    expect(await textAt(runs, "/runs/out", "d.jsonl")).toBe("");
    expect(await damagesOf(runs)).toEqual([]);
    await runs.retry();
    expect(await textAt(runs, "/runs/out", "a.jsonl")).toContain('"a 1","answer":"answer 1"');
    expect(await damagesOf(runs)).toEqual([]);
  });

  it("are in the form of their ending: an object for an object, a list for lines", async () => {
    const runs = runsOf({ path: "/runs/many/{stem}.augmented.json" });
    await runs.run();
    expect(JSON.parse(await textAt(runs, "/runs/many", "a.augmented.json"))).toHaveLength(3);
    expect(JSON.parse(await textAt(runs, "/runs/many", "c.augmented.json"))).toEqual({
      id: "c0",
      text: "c 0",
      answer: "answer 5",
    });
    expect(JSON.parse(await textAt(runs, "/runs/many", "d.augmented.json"))).toEqual([]);
    expect(await damagesOf(runs)).toEqual([]);
  });

  it("of inputs that were not to be read are not made", async () => {
    const runs = runsOf({ path: "/runs/many/{stem}.csv" });
    await runs.run(willing(), runs.job({ limit: 3 }));
    expect(await resultsIn(runs, "/runs/many")).toEqual(["a.csv"]);
    expect(await textAt(runs, "/runs/many", "a.csv")).toContain("id,text,answer\na0,a 0,answer 0");
  });

  it("lie where a list says, and are found damaged there", async () => {
    const runs = runsOf({ path: "/runs/out" });
    const list = join(dirname(runs.input), "list.txt");
    writeFileSync(list, "in/a.jsonl;/far/off/a.csv\nin/b.jsonl;/far/b.json\n");
    const own = runs.job;
    runs.job = (more = {}) =>
      own({ input: { path: list, list: true }, allow: { folders: ["/far"] }, ...more });
    await runs.run();
    expect(await resultsIn(runs, "/far")).toEqual(["b.json", "off/a.csv"]);
    expect(await damagesOf(runs)).toEqual([]);
    await runs.store("/far").replace("off/a.csv", Buffer.from("id\n"));
    expect(await damagesOf(runs)).toEqual([expect.stringContaining("off/a.csv: it has 3 bytes")]);
    await runs.store("/far").remove("off/a.csv");
    expect(await damagesOf(runs)).toEqual(["off/a.csv: the file is missing"]);
  });

  it("are not written over what is there, and go with the run that made them", async () => {
    const runs = runsOf({ path: "/runs/many/{stem}.csv" });
    const store = runs.store("/runs/many");
    await store.replace("b.csv", Buffer.from("mine"));
    const error = await errorOf(runs.run());
    expect([error.code, error.place.file]).toEqual(["OUTPUT_OCCUPIED", "memory:/b.csv"]);
    await store.remove("b.csv");
    await runs.run();
    await store.replace("mine.csv", Buffer.from("mine"));
    const other = runs.job({
      prompt: "Other",
      input: runs.job().input.map((it) => ({ ...it, path: it.path.replace("*.json*", "a.jsonl") })),
    });
    await runs.run(willing(), other, { overwrite: true });
    expect(await resultsIn(runs, "/runs/many")).toEqual(["a.csv", "mine.csv"]);
  });
});

describe("files by row", () => {
  it("are named by index or id, each with its row alone", async () => {
    const runs = runsOf({ path: "/runs/many/{stem}/{index}.json" });
    await runs.run(refusing([1]));
    expect(await resultsIn(runs, "/runs/many")).toEqual([
      "a/0.json",
      "a/2.json",
      "b/3.json",
      "b/4.json",
      "c/5.json",
    ]);
    expect(JSON.parse(await textAt(runs, "/runs/many", "b/3.json")).answer).toBe("answer 3");
    expect(await damagesOf(runs)).toEqual([]);
    await runs.retry();
    expect(await resultsIn(runs, "/runs/many")).toContain("a/1.json");
    expect(await damagesOf(runs)).toEqual([]);
    const again = await errorOf(runs.run(willing(), runs.job({ prompt: "Other" })));
    expect(again.code).toBe("RUN_DIFFERS");
    await runs.run(refusing([0]), runs.job({ prompt: "Other" }), { overwrite: true });
    expect(await resultsIn(runs, "/runs/many")).not.toContain("a/0.json");
  });

  it("whose ids are the same, or no names, differ all the same", async () => {
    const runs = runsOf({ path: "/runs/many/{id}.jsonl" }, "b.jsonl");
    const path = join(dirname(runs.input), "in", "b.jsonl");
    const ids = ['"../x"', '"../x"', '"."', "9007199254740993", '"x/y"'];
    writeFileSync(path, ids.map((id) => `{"id":${id},"text":"t"}\n`).join(""));
    await runs.run();
    expect(await resultsIn(runs, "/runs/many")).toEqual([
      ".._x-1.jsonl",
      ".._x.jsonl",
      "9007199254740993.jsonl",
      "_..jsonl",
      "x_y.jsonl",
    ]);
    expect(await damagesOf(runs)).toEqual([]);
  });

  it("need an id where they are named by it, and a free place", async () => {
    const runs = runsOf({ path: "/runs/many/{id}.json" });
    const nameless = runs.job({ input: { path: runs.job().input[0]!.path } });
    expect((await errorOf(runs.run(willing(), nameless))).hint).toContain("id: id");
    await runs.store("/runs/many").replace("some.json", Buffer.from("mine"));
    expect((await errorOf(runs.run())).code).toBe("OUTPUT_OCCUPIED");
  });
});
