import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { cleanRun } from "../../../src/run/clean.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { readManifest } from "../../../src/run/seal/seals.ts";
import { type MemoryRuns, memoryRuns, willing } from "../memory-runs.ts";
import { errorOf, pathsOf, rowsOf } from "../run-fixture.ts";
import { refusing, responseOf, scriptedEngine } from "../scripted-engine.ts";

const row = (id: number) => JSON.stringify({ id, text: `row ${id}` });
const append = (runs: MemoryRuns, text: string) => appendFileSync(runs.input, text);
const idsOf = async (runs: MemoryRuns) => (await runs.results()).map(({ id }) => id);
const upTo = (count: number) => Array.from({ length: count }, (_, id) => id);

const forms: [string, Partial<JobInput>][] = [
  ["parts", {}],
  ["a merged file", { output: { path: "/runs/all.jsonl" } }],
  ["parts of CSV", { output: { path: "/runs/out", format: "csv" } }],
  ["a merged CSV file", { output: { path: "/runs/all.csv" } }],
];

/** Ids of the results, whatever their form. */
async function published(runs: MemoryRuns): Promise<number[]> {
  const { outside, directory, mergedFile } = runs.location();
  const texts: string[] = [];
  if (mergedFile) texts.push(Buffer.from(await runs.store(outside).read(mergedFile)).toString());
  else
    for (const path of await pathsOf(runs.store(directory), "part-"))
      texts.push(await runs.text(path));
  return texts.flatMap((text) =>
    text
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("id,"))
      .map((line) => Number(/^(?:\{"id":)?(\d+)/.exec(line)![1])),
  );
}

describe.each(forms)("an extension of %s", (_name, changes) => {
  const start = async (rows = 5) => {
    const runs = memoryRuns(rowsOf(rows), { shard: { rows: 2 }, ...changes });
    await runs.run(refusing([1]));
    return runs;
  };

  it("processes what was appended, and nothing else", async () => {
    const runs = await start();
    append(runs, `${row(5)}\n${row(6)}\n${row(7)}\n`);
    const engine = willing();
    const { summary } = await runs.extend(engine);
    expect(engine.asked.toSorted()).toEqual([5, 6, 7]);
    expect(summary).toMatchObject({
      request_count: 8,
      response_count: 7,
      rows: { total: 8, answered: 7, failed: 1 },
    });
    expect(await published(runs)).toEqual([0, 2, 3, 4, 5, 6, 7]);
    expect((await runs.letters()).map(({ index }) => index)).toEqual([1]);
    expect(await runs.damages()).toEqual([]);
    const again = willing();
    expect((await runs.extend(again)).summary.rows.total).toBe(8);
    expect((await runs.run(again)).wasSealed).toBe(true);
    expect(again.asked).toEqual([]);
  });

  it("stops at the failed rows that the job allows, with those before it", async () => {
    const runs = memoryRuns(rowsOf(4), { shard: { rows: 2 }, maxFailedRows: 4, ...changes });
    await runs.run(refusing([0, 1, 2, 3]));
    append(runs, Array.from({ length: 20 }, (_, at) => `${row(4 + at)}\n`).join(""));
    // Fewer than the job allows, but one too many with those before.
    const engine = refusing([5]);
    const { error, summary } = await runs.extend(engine);
    expect([error?.code, summary.sealed]).toEqual(["TOO_MANY_FAILED_ROWS", false]);
    expect(engine.asked.length).toBeLessThan(20);
  });

  it("is extended, cleaned and retried like any other run", async () => {
    const runs = await start();
    append(runs, `${row(5)}\n`);
    await runs.extend(refusing([5]));
    append(runs, `${row(6)}\n`);
    await runs.extend();
    expect(await published(runs)).toEqual([0, 2, 3, 4, 6]);
    await runs.clock.run(cleanRun(runs.dependenciesOf(), runs.location(), false));
    expect(await runs.damages()).toEqual([]);
    const engine = willing();
    await runs.retry(engine);
    expect(engine.asked.toSorted()).toEqual([1, 5]);
    expect(await published(runs)).toEqual(upTo(7));
    expect(await runs.damages()).toEqual([]);
    await runs.clock.run(cleanRun(runs.dependenciesOf(), runs.location(), false));
    append(runs, `${row(7)}\n`);
    await runs.extend();
    expect(await published(runs)).toEqual(upTo(8));
    expect(await runs.damages()).toEqual([]);
  });

  it("goes on where it stopped", async () => {
    const runs = await start();
    append(runs, `${row(5)}\n${row(6)}\n${row(7)}\n`);
    let left = 2;
    const down = scriptedEngine(1, ({ index }) =>
      left-- > 0 ? responseOf(`answer ${index}`) : new SluiceError("AUTHENTICATION_FAILED"),
    );
    expect((await runs.extend(down)).error?.code).toBe("AUTHENTICATION_FAILED");
    expect(await runs.damages()).toEqual([]);
    const engine = willing();
    await runs.extend(engine);
    expect(engine.asked).toEqual([7]);
    expect(await published(runs)).toEqual([0, 2, 3, 4, 5, 6, 7]);
    expect(await runs.damages()).toEqual([]);
  });
});

describe("an extension", () => {
  it("takes rows behind a last line without a line break, and files that came", async () => {
    const runs = memoryRuns([], { shard: { rows: 3 } });
    const folder = dirname(runs.input);
    writeFileSync(runs.input, `${row(0)}\n${row(1)}`);
    const input = { path: join(folder, "*.jsonl") };
    const job = runs.job({ input });
    await runs.run(willing(), job);
    append(runs, `\n${row(2)}`);
    writeFileSync(join(folder, "a.jsonl"), `${row(3)}\n${row(4)}\n`);
    const engine = willing();
    await runs.extend(engine, job);
    expect(engine.asked.toSorted()).toEqual([2, 3, 4]);
    expect((await idsOf(runs)).toSorted()).toEqual(upTo(5));
    expect(await runs.damages()).toEqual([]);
  });

  it("is refused where a row that was processed changed, and where a file is gone", async () => {
    const runs = memoryRuns(rowsOf(4), { shard: { rows: 2 } });
    await runs.run();
    const text = readFileSync(runs.input, "utf8");
    writeFileSync(runs.input, `${text.replace("row 2", "other")}${row(4)}\n`);
    const error = await errorOf(runs.extend());
    expect(error).toMatchObject({ code: "INPUT_CHANGED", place: { line: 3 } });
    writeFileSync(runs.input, text.split("\n").slice(1).join("\n"));
    expect((await errorOf(runs.extend())).message).toContain("it has 3 rows, and 4 were planned");
    expect(await runs.damages()).toEqual([]);
  });

  it("finishes an unfinished run first", async () => {
    const runs = memoryRuns(rowsOf(3), { shard: { rows: 1 } });
    let left = 1;
    await runs.run(
      scriptedEngine(1, () =>
        left-- > 0 ? responseOf("one") : new SluiceError("AUTHENTICATION_FAILED"),
      ),
    );
    append(runs, `${row(3)}\n`);
    const engine = willing();
    const { summary } = await runs.extend(engine);
    expect(engine.asked.toSorted()).toEqual([1, 2, 3]);
    expect(summary.rows).toMatchObject({ total: 4, answered: 4 });
    expect(await runs.damages()).toEqual([]);
  });

  it("goes no further than the limit of the job", async () => {
    const runs = memoryRuns(rowsOf(3), { limit: 4 });
    await runs.run();
    append(runs, `${row(3)}\n${row(4)}\n`);
    await runs.extend();
    expect(await idsOf(runs)).toEqual(upTo(4));
    expect((await runs.extend()).summary.rows.total).toBe(4);
    expect(await runs.damages()).toEqual([]);
  });

  it("counts ids that stand among the rows before", async () => {
    const runs = memoryRuns(rowsOf(3));
    const job = runs.job({ input: { path: runs.input, id: "id" } });
    await runs.run(willing(), job);
    append(runs, `${row(1)}\n`);
    await runs.extend(willing(), job);
    const manifest = await readManifest(runs.store("/runs/out"));
    expect(manifest?.duplicateIds).toEqual({ count: 1, examples: [{ rows: [1, 3] }] });
    expect(await runs.damages()).toEqual([]);
  });

  it("writes files by input anew, with the rows that were appended", async () => {
    const runs = memoryRuns([], { shard: { rows: 2 } });
    const folder = dirname(runs.input);
    for (const name of ["a", "b"]) writeFileSync(join(folder, `${name}.jsonl`), `${row(0)}\n`);
    const output = { path: "/runs/by", perInputFile: true };
    const job = runs.job({ input: { path: join(folder, "[ab].jsonl") }, output });
    await runs.run(willing(), job);
    appendFileSync(join(folder, "a.jsonl"), `${row(1)}\n`);
    await runs.extend(willing(), job);
    const lines = async (name: string) => (await runs.text(name, job)).trimEnd().split("\n");
    expect((await lines("a.jsonl")).map((line) => JSON.parse(line).id)).toEqual([0, 1]);
    expect((await lines("b.jsonl")).map((line) => JSON.parse(line).id)).toEqual([0]);
    expect(await runs.damages(job)).toEqual([]);
  });

  it("is refused of a sample", async () => {
    const runs = memoryRuns(rowsOf(9), { sample: 3 });
    await runs.run();
    append(runs, `${row(9)}\n`);
    expect((await errorOf(runs.extend())).code).toBe("UNSUPPORTED");
  });
});
