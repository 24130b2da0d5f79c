import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import { promptSetOf } from "../../../src/run/askable.ts";
import type { RunSummary } from "../../../src/run/events.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { TaskTable } from "../../../src/run/plan.ts";
import { PreparedPrompts } from "../../../src/run/prepared/prepared-prompts.ts";
import { type MemoryRuns, memoryRuns } from "../memory-runs.ts";
import { pathsOf, plannedRun, rowsOf } from "../run-fixture.ts";
import { responseOf, type ScriptedEngine, scriptedEngine } from "../scripted-engine.ts";

const preparedDir = "/prepared";
const shard = { rows: 4 };

/** Answers with the text that it was asked, as it came. */
const echoing = () =>
  scriptedEngine(4, ({ prompt, messages }) => responseOf(prompt ?? messages!.at(-1)!.content));

let outputs = 0;
/** The same job again, in a run of its own. */
async function again(
  runs: MemoryRuns,
  changes: Partial<JobInput> = {},
  engine: ScriptedEngine = echoing(),
): Promise<{ prepared: RunSummary["prepared"]; answers: unknown[] }> {
  const job = runs.job({ output: { path: `/runs/${outputs++}` }, ...changes });
  const { summary } = await runs.run(engine, job);
  const answers = (await runs.results(job)).map(({ answer }) => answer);
  return { prepared: summary.prepared, answers };
}
const filesIn = (runs: MemoryRuns) => pathsOf(runs.store(preparedDir), "");

describe("preparedDir", () => {
  it("keeps what a run rendered, a file a shard, for others of its rows and prompts", async () => {
    const runs = memoryRuns(rowsOf(10), { preparedDir, shard });
    const first = await again(runs);
    expect(first.prepared).toEqual({ hits: 0, misses: 10 });
    expect(await filesIn(runs)).toHaveLength(3);
    const second = await again(runs, { generation: { temperature: 1 } });
    expect(second.prepared).toEqual({ hits: 10, misses: 0 });
    expect(second.answers).toEqual(first.answers);
    expect(await filesIn(runs)).toHaveLength(3);
  });

  it("takes the words from there", async () => {
    const runs = memoryRuns(rowsOf(2), { preparedDir });
    await again(runs);
    const store = runs.store(preparedDir);
    const [path = ""] = await filesIn(runs);
    const text = Buffer.from(await store.read(path)).toString();
    await store.replace(path, Buffer.from(text.replaceAll("Say row", "Kept row")));
    // The first row is rendered: it tells what all requests of the job have in common.
    expect((await again(runs)).answers).toEqual(["Say row 0", "Kept row 1"]);
  });

  it("knows other prompts, models, lengths and rows apart", async () => {
    const runs = memoryRuns(rowsOf(4), { preparedDir, shard });
    await again(runs);
    for (const changes of [
      { prompt: "Tell {{ text }}" },
      { model: { engine: "fake", name: "other" } },
      { sequenceLen: 50 },
      { truncateFeatures: ["id"] },
      { limit: 3 },
      { sample: 2 },
    ] satisfies Partial<JobInput>[]) {
      const { prepared } = await again(runs, changes);
      expect([changes, prepared?.hits]).toEqual([changes, 0]);
    }
    // The first shard has the same bytes as before.
    runs.writeInput(rowsOf(5));
    expect((await again(runs)).prepared).toEqual({ hits: 4, misses: 1 });
  });

  it("serves rows in any order, and renders what is more than words each time", async () => {
    const lists = ['{"list":["a","b"]}', '{"list":"none"}', '{"list":[]}'];
    const prompt = { prompt: "{{ item }}", forEach: "list" };
    const runs = memoryRuns(lists, { preparedDir, prompt });
    const first = await again(runs);
    expect(first.answers).toEqual([["a", "b"], []]);
    expect(await again(runs)).toMatchObject({ answers: first.answers });
    const ordered = memoryRuns(rowsOf(12).reverse(), { preparedDir, order: "prefix" });
    const { answers } = await again(ordered);
    expect((await again(ordered)).answers).toEqual(answers);
    expect((await again(ordered)).prepared).toEqual({ hits: 12, misses: 0 });
  });

  it("keeps nothing of a shard that was not read whole", async () => {
    const { context } = await plannedRun(rowsOf(6), { shard: { rows: 6 } });
    const { job } = context.plan;
    const table = new TaskTable(context.storage, context.plan);
    const task = await table.task(0);
    await table.close();
    const storage = memoryStorage();
    const promptSet = promptSetOf(job, 1);
    const prepared = new PreparedPrompts({ storage, job, promptSet, logger: silentLogger });
    const attempt = { task, notePrepared: () => {} };
    const read = async (rows: number, most: number) => {
      const all = rowsOf(rows).map((raw, index) => ({
        ...{ index, raw, file: "rows.jsonl", line: index + 1 },
        value: JSON.parse(raw) as JsonObject,
      }));
      const batches = Readable.from([all.slice(0, 3), all.slice(3)].filter((it) => it.length > 0));
      let taken = 0;
      for await (const { length } of prepared.prepare(batches, attempt)) {
        taken += length;
        if (taken >= most) break;
      }
      return (await pathsOf(storage, "")).length;
    };
    // Rows that are missing had their answers before; a reader that ends early was stopped.
    expect(await read(3, 6)).toBe(0);
    expect(await read(6, 3)).toBe(0);
    expect(await read(6, 7)).toBe(1);
  });

  it("goes on without a folder that cannot be written or read", async () => {
    const runs = memoryRuns(rowsOf(3), { preparedDir });
    const broken = async () => {
      throw new SluiceError("STORE_FAILED", "broken");
    };
    const store = runs.store(preparedDir);
    const dependencies = runs.dependenciesOf((location) =>
      location === preparedDir ? { ...store, stat: broken, writer: broken } : runs.store(location),
    );
    const { summary } = await runs.run(echoing(), runs.job(), { dependencies });
    expect(summary).toMatchObject({ status: "SUCCESS", prepared: { hits: 0, misses: 3 } });
    await again(runs);
    const [path = ""] = await filesIn(runs);
    await store.replace(path, Buffer.from("not JSON\n"));
    expect(await again(runs)).toMatchObject({
      prepared: { hits: 0, misses: 3 },
      answers: ["Say row 0", "Say row 1", "Say row 2"],
    });
  });
});
