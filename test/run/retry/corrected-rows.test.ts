import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { readManifest } from "../../../src/run/seal/seals.ts";
import type { RunEvent } from "../../../src/run/status/events.ts";
import { type MemoryRuns, memoryRuns, willing } from "../memory-runs.ts";
import { errorOf } from "../run-fixture.ts";

const broken = ['{"id": 1, broken', '{"id": 4}'];
const rows = [0, 1, 2, 3, 4, 5].map((id) =>
  id === 1 ? broken[0]! : id === 4 ? broken[1]! : `{"id": ${id}, "text": "row ${id}"}`,
);

const start = async (changes: Partial<JobInput> = {}) => {
  const runs = memoryRuns(rows, { shard: { rows: 2 }, ...changes });
  await runs.run();
  expect(await runs.letters()).toHaveLength(2);
  return runs;
};

function mend(runs: MemoryRuns, ...pairs: [before: string, after: string][]): void {
  let text = readFileSync(runs.input, "utf8");
  for (const [before, after] of pairs) text = text.replace(before, after);
  writeFileSync(runs.input, text);
}

const linesOf = async (runs: MemoryRuns) =>
  (await runs.results()).map(({ id, text, answer }) => `${id} ${text}: ${answer}`);
const line = (id: number, text = `row ${id}`) => `${id} ${text}: answer ${id}`;
const notices = (events: readonly RunEvent[]) =>
  events.flatMap((event) => (event.type === "notice" ? [event.message] : []));

describe("rows that are mended in the input", () => {
  it("are taken from there, and nothing else is processed", async () => {
    const runs = await start();
    mend(
      runs,
      [broken[0]!, '{"id": 1, "text": "mended"}'],
      [broken[1]!, '{"id": 4, "text": "too"}'],
    );
    const engine = willing();
    const result = await runs.reread(engine);
    expect(engine.asked.toSorted()).toEqual([1, 4]);
    expect(result?.summary.rows).toMatchObject({ total: 6, answered: 6, failed: 0 });
    expect(await linesOf(runs)).toEqual([
      line(0),
      line(1, "mended"),
      line(2),
      line(3),
      line(4, "too"),
      line(5),
    ]);
    expect(await runs.damages()).toEqual([]);
    expect((await runs.run()).wasSealed).toBe(true);
  });

  it("may be mended in several goes, and what was mended counts as it is then", async () => {
    const runs = await start({ shard: { rows: 6 } });
    mend(runs, [broken[0]!, '{"id": 1, "text": "mended"}']);
    await runs.reread();
    mend(runs, [broken[1]!, '{"id": 4, "text": "too"}']);
    await runs.reread();
    expect((await linesOf(runs)).slice(1)).toContain(line(1, "mended"));
    expect(await runs.letters()).toEqual([]);
    expect(await runs.damages()).toEqual([]);
  });

  it("no longer share the id that they had", async () => {
    const ids = ["a0", "a1", "a2", "a1"];
    const lines = (failing: string) =>
      ids.map((id, at) => (at === 3 ? failing : `{"id": "${id}", "text": "row ${at}"}`));
    const runs = memoryRuns(lines('{"id": "a1"}'));
    await runs.run(willing(), runs.job({ input: { path: runs.input, id: "id" } }));
    const repeated = async () => (await readManifest(runs.store("/runs/out")))?.duplicateIds;
    expect(await repeated()).toEqual({ count: 1, examples: [{ rows: [1, 3] }] });
    runs.writeInput(lines('{"id": "a2"}'));
    await runs.reread();
    expect(await repeated()).toEqual({ count: 1, examples: [{ rows: [2, 3] }] });
    runs.writeInput(lines('{"id": "a3", "text": "mended"}'));
    await runs.reread();
    expect(await repeated()).toEqual({ count: 0, examples: [] });
    expect(await runs.damages()).toEqual([]);
  });

  it("are refused where another row changed, or the number of rows", async () => {
    const runs = await start();
    mend(runs, [broken[0]!, '{"id": 1, "text": "mended"}'], ["row 0", "other"]);
    expect(await errorOf(runs.reread())).toMatchObject({
      code: "INPUT_CHANGED",
      message: expect.stringContaining("row 0 (from 0) changed, and it had not failed") as unknown,
    });
    mend(runs, ["other", "row 0"], ["row 3", "third"]);
    expect((await errorOf(runs.reread())).message).toContain("no row failed there");
    mend(runs, ["third", "row 3"], ['{"id": 1, "text": "mended"}\n', ""]);
    expect((await errorOf(runs.reread())).message).toContain("it has 5 rows, and 6 were planned");
    expect(await runs.damages()).toEqual([]);
  });

  it("are told to be read anew, where a plain retry finds them elsewhere", async () => {
    const runs = await start();
    mend(runs, [broken[0]!, '{"id": 1, "text": "mended, and longer"}']);
    const result = await runs.retry();
    expect(result?.error).toMatchObject({ code: "INPUT_CHANGED" });
    expect(result?.error?.hint).toContain("sluice retry memory: --reread");
    // It answered nothing, and makes way.
    expect((await runs.reread())?.summary.rows.answered).toBe(5);
    expect(await runs.damages()).toEqual([]);
  });

  it("leave rows that were appended to an extension", async () => {
    const runs = await start();
    mend(runs, [broken[0]!, '{"id": 1, "text": "mended"}']);
    appendFileSync(runs.input, '{"id": 6, "text": "row 6"}\n');
    await runs.reread();
    expect(notices(runs.events).join("\n")).toContain("1 rows were appended to the input");
    await runs.extend();
    expect((await linesOf(runs)).at(-1)).toBe(line(6));
    expect(await runs.damages()).toEqual([]);
  });
});

describe("a file of corrected rows", () => {
  const write = (runs: MemoryRuns, text: string, name = "mended.jsonl") => {
    const file = join(dirname(runs.input), name);
    writeFileSync(file, text);
    return file;
  };

  it("has the failed rows in their order", async () => {
    const runs = await start();
    const file = write(runs, '{"id": 1, "text": "one"}\n{"id": 4, "text": "four"}\n');
    await runs.reread(willing(), { file });
    expect(await linesOf(runs)).toEqual(
      [0, 1, 2, 3, 4, 5].map((id) => line(id, id === 1 ? "one" : id === 4 ? "four" : undefined)),
    );
    expect(await runs.damages()).toEqual([]);
    expect((await runs.run()).wasSealed).toBe(true);
  });

  it("has them by their ids, in any order and format, and some of them", async () => {
    const input = { path: "", id: "id" };
    const runs = memoryRuns(rows.map((row) => row.replace(broken[0]!, '{"id": 1}')));
    const job = runs.job({ input: { ...input, path: runs.input } });
    await runs.run(willing(), job);
    const file = write(runs, "id,text\n4,four\n1,one\n", "mended.csv");
    // Values of CSV are texts, and so are its ids.
    expect((await errorOf(runs.reread(willing(), { file }))).code).toBe("INPUT_CHANGED");
    const own = write(runs, '{"id": 4, "text": "four"}\n');
    const engine = willing();
    await runs.reread(engine, { file: own });
    expect(engine.asked).toEqual([4]);
    expect(notices(runs.events)).toContainEqual(
      expect.stringContaining("1 of 2 failed rows are in"),
    );
    expect((await linesOf(runs)).at(-2)).toBe(line(4, "four"));
    expect(await runs.letters()).toMatchObject([{ index: 1 }]);
    expect(await runs.damages()).toEqual([]);
  });

  it("has them by ids of more digits than a number holds", async () => {
    const ids = ["1234567890123456781", "1234567890123456782", "1234567890123456783"];
    const given = ids.map((id, at) => (at === 2 ? `{"id": ${id}, "text": "x"}` : `{"id": ${id}}`));
    const runs = memoryRuns(given);
    await runs.run(willing(), runs.job({ input: { path: runs.input, id: "id" } }));
    const mended = [1, 0].map((at) => `{"id": ${ids[at]}, "text": "of ${at}"}\n`);
    await runs.reread(willing(), { file: write(runs, mended.join("")) });
    const texts = (await runs.text("part-00000.jsonl")).trimEnd().split("\n");
    expect(texts).toEqual([
      `{"id": ${ids[0]}, "text": "of 0","answer":"answer 0"}`,
      `{"id": ${ids[1]}, "text": "of 1","answer":"answer 1"}`,
      `{"id": ${ids[2]}, "text": "x","answer":"answer 2"}`,
    ]);
    expect(await runs.damages()).toEqual([]);
  });

  it("is refused where its rows cannot be told", async () => {
    const runs = await start();
    const file = write(runs, '{"id": 1, "text": "one"}\n');
    expect(await errorOf(runs.reread(willing(), { file }))).toMatchObject({
      code: "INPUT_CHANGED",
      hint: expect.stringContaining("--failed --as-input") as unknown,
    });
  });
});
