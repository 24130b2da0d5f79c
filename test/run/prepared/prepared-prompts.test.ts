import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import { loadPapa } from "../../../src/data/formats/csv/parse-fields.ts";
import type { InputRow } from "../../../src/data/row.ts";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import type { Storage } from "../../../src/data/storage/storage.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { contentText } from "../../../src/foundation/inference.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { promptSetOf } from "../../../src/run/plan/job-prompts.ts";
import { TaskTable } from "../../../src/run/plan/plan.ts";
import {
  maxTokenizedChars,
  PreparedPrompts,
  preparedState,
} from "../../../src/run/prepared/prepared-prompts.ts";
import type { RunContext } from "../../../src/run/run-context.ts";
import type { RunSummary } from "../../../src/run/status/events.ts";
import { type MemoryRuns, memoryRuns } from "../memory-runs.ts";
import { pathsOf, plannedRun, rowsOf } from "../run-fixture.ts";
import { responseOf, type ScriptedEngine, scriptedEngine } from "../scripted-engine.ts";

const preparedDir = "/prepared";
const shard = { rows: 4 };

/** Answers with the text that it was asked, as it came. */
const echoing = () =>
  scriptedEngine(4, ({ prompt, messages }) =>
    responseOf(prompt ?? contentText(messages!.at(-1)!.content)),
  );

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
/** A token a character, and what was asked of it. */
function tokenizing(tokenizer: string) {
  const tokenized: string[] = [];
  const groups: number[] = [];
  const asked: unknown[] = [];
  const engine = scriptedEngine(4, ({ messages, tokens }) => {
    asked.push(tokens);
    return responseOf(contentText(messages!.at(-1)!.content));
  });
  engine.tokenize = async (prompts) => {
    const texts = prompts.map(({ messages }) => messages!.map(({ content }) => content).join());
    tokenized.push(...texts);
    groups.push(texts.length);
    return { tokenizer, prompts: texts.map(tokensOf) };
  };
  return { engine, tokenized, groups, asked };
}
const tokensOf = (text: string) => [[], [...text].map((character) => character.charCodeAt(0))];

const sealed = (text: string) => {
  const lines = text.split("\n").slice(0, -2).join("\n");
  return `${lines}\n${JSON.stringify({ sha256: sha256Hex(`${lines}\n`) })}\n`;
};

async function rewrite(runs: MemoryRuns, change: (text: string) => string): Promise<void> {
  const store = runs.store(preparedDir);
  const [path = ""] = await filesIn(runs);
  const text = Buffer.from(await store.read(path)).toString();
  await store.replace(path, Buffer.from(change(text)));
}

const inputRows = (rows: readonly string[]) =>
  rows.map((raw, index) => ({
    ...{ index, raw, file: "rows.jsonl", line: index + 1 },
    value: JSON.parse(raw) as JsonObject,
  }));

/** The rows of the first task as they come out of a process of their own. */
async function preparing(context: RunContext, storage: Storage, batches: InputRow[][]) {
  const { job } = context.plan;
  const table = new TaskTable(context.storage, context.plan);
  const task = await table.task(0);
  await table.close();
  const promptSet = promptSetOf(job, 1);
  const asked = { job, promptSet, keeper: promptSet.keeper! };
  const prepared = new PreparedPrompts({ storage, ...asked, logger: silentLogger });
  return prepared.arrange(Readable.from(batches), { task, notePrepared: () => {} });
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
    await rewrite(runs, (text) => sealed(text.replaceAll("Say row", "Kept row")));
    expect((await again(runs)).answers).toEqual(["Kept row 0", "Kept row 1"]);
  });

  it("keeps prompts with a schema, and asks for it again", async () => {
    const schema = { type: "object", properties: { a: { type: "string" } }, required: ["a"] };
    const runs = memoryRuns(rowsOf(3), { preparedDir, schema });
    const seen: unknown[] = [];
    const answering = () =>
      scriptedEngine(4, ({ messages, structure }) => {
        seen.push(structure?.schema);
        return responseOf(JSON.stringify({ a: messages![0]!.content }));
      });
    const first = await again(runs, {}, answering());
    await rewrite(runs, (text) => sealed(text.replaceAll("Say row 1", "Kept row 1")));
    const second = await again(runs, {}, answering());
    expect([first, second].map(({ prepared }) => prepared)).toEqual([
      { hits: 0, misses: 3 },
      { hits: 3, misses: 0 },
    ]);
    expect(second.answers).toEqual([{ a: "Say row 0" }, { a: "Kept row 1" }, { a: "Say row 2" }]);
    expect(seen).toEqual(Array(6).fill(expect.objectContaining(schema)));
    const [path = ""] = await filesIn(runs);
    expect(Buffer.from(await runs.store(preparedDir).read(path)).toString()).not.toMatch(/grammar/);
  });

  it("keeps the tokens of an engine that makes them, by the digest of its tokenizer", async () => {
    const runs = memoryRuns(rowsOf(10), { preparedDir, shard });
    const first = tokenizing("a");
    expect((await again(runs, {}, first.engine)).prepared).toEqual({ hits: 0, misses: 10 });
    expect(first.tokenized).toHaveLength(10);
    expect(first.asked).toEqual(first.tokenized.map(tokensOf));
    const second = tokenizing("a");
    const others = { model: { engine: "fake", name: "the same by another name" } } as const;
    expect((await again(runs, others, second.engine)).prepared).toEqual({ hits: 10, misses: 0 });
    expect(second.tokenized).toEqual([]);
    expect(second.asked).toEqual(first.asked);
    const other = tokenizing("b");
    expect((await again(runs, {}, other.engine)).prepared).toEqual({ hits: 0, misses: 10 });
    expect(await filesIn(runs)).toHaveLength(6);
    expect((await again(runs)).prepared).toEqual({ hits: 0, misses: 10 });
  });

  it("gives an engine prompts of a bounded size to make tokens of", async () => {
    const text = "x".repeat(maxTokenizedChars / 4);
    const rows = Array.from({ length: 10 }, (_, row) => JSON.stringify({ text: text + row }));
    const runs = memoryRuns(rows, { preparedDir });
    const { engine, groups } = tokenizing("a");
    await again(runs, {}, engine);
    expect(Math.max(...groups)).toBe(3);
    expect(groups.reduce((sum, size) => sum + size)).toBe(10);
  });

  it("has tokens of the same words made once, for all who ask them", async () => {
    const list = { prompt: "{{ item }}", forEach: "list" };
    const prompts = { one: list, other: { ...list, onTooLong: "truncate-left" } as const };
    const runs = memoryRuns(['{"list":["a","b","a"]}'], {
      preparedDir,
      prompt: undefined,
      prompts,
    });
    const { engine, tokenized, asked } = tokenizing("a");
    await again(runs, {}, engine);
    expect(tokenized).toEqual(["a", "b"]);
    expect(asked).toEqual(["a", "b", "a", "a", "b", "a"].map(tokensOf));
  });

  it("keeps no tokens of what an engine cannot make any of, and asks it all the same", async () => {
    const runs = memoryRuns(rowsOf(2), { preparedDir });
    const engine = echoing();
    engine.tokenize = async (prompts) => ({ tokenizer: "a", prompts: prompts.map(() => null) });
    const { answers } = await again(runs, {}, engine);
    expect(answers).toEqual(["Say row 0", "Say row 1"]);
    expect(await again(runs, {}, engine)).toEqual({ prepared: { hits: 2, misses: 0 }, answers });
  });

  it("goes on without keeping anything where the engine dies over it, or changes", async () => {
    const runs = memoryRuns(rowsOf(3), { preparedDir });
    for (const [from, tokenizer] of [
      [0, "a"],
      [1, "a"],
      [Number.POSITIVE_INFINITY, "changed"],
    ] as const) {
      let calls = 0;
      const engine = echoing();
      engine.tokenize = async (prompts) => {
        if (calls++ >= from) throw new SluiceError("ENGINE_DIED");
        return { tokenizer: calls > 1 ? tokenizer : "a", prompts: prompts.map(() => [[1]]) };
      };
      const { prepared, answers } = await again(runs, {}, engine);
      expect(prepared).toEqual({ hits: 0, misses: 3 });
      expect(answers).toEqual(["Say row 0", "Say row 1", "Say row 2"]);
    }
    expect(await filesIn(runs)).toEqual([]);
  });

  it("makes a file that is damaged again, as it was", async () => {
    const runs = memoryRuns(rowsOf(3), { preparedDir });
    await again(runs);
    const [path = ""] = await filesIn(runs);
    const whole = Buffer.from(await runs.store(preparedDir).read(path)).toString();
    const damages: ((text: string) => string)[] = [
      (text) => text.replace("Say row 1", "Say row 7"),
      (text) => text.split("\n").slice(0, 2).join("\n"),
      (text) => text.slice(0, -1),
      (text) => `${text}\n`,
      () => "",
      () => "not JSON\n",
    ];
    for (const damage of damages) {
      await rewrite(runs, damage);
      expect(await again(runs)).toEqual({
        prepared: { hits: 0, misses: 3 },
        answers: ["Say row 0", "Say row 1", "Say row 2"],
      });
      expect(Buffer.from(await runs.store(preparedDir).read(path)).toString()).toBe(whole);
      expect((await again(runs)).prepared).toEqual({ hits: 3, misses: 0 });
    }
  });

  it("is the same whole file where two processes make it at once", async () => {
    const { context } = await plannedRun(rowsOf(4), { shard: { rows: 4 } });
    const storage = memoryStorage();
    const rows = () => inputRows(rowsOf(4));
    const readers = await Promise.all([0, 1].map(() => preparing(context, storage, [rows()])));
    for (const reader of readers) await reader.next();
    for (const reader of readers) while (!(await reader.next()).done);
    const [path = "", ...more] = await pathsOf(storage, "");
    expect(more).toEqual([]);
    expect(await preparedState(storage, path)).toBe("whole");
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

  it("knows rows of the same bytes apart by what is read of them", async () => {
    // A library that is loaded meanwhile is no work that the virtual clock knows of.
    await loadPapa();
    const records = ["1,one", "2,two", "3,three", "4,four", "5,five"];
    const runs = memoryRuns(["id,text", ...records], { preparedDir, shard });
    const input = { path: runs.input, format: "csv" } as const;
    expect((await again(runs, { input })).prepared).toEqual({ hits: 0, misses: 5 });
    expect((await again(runs, { input })).prepared).toEqual({ hits: 5, misses: 0 });
    const schema = { properties: { id: { type: "integer" } } };
    for (const reading of [{ columns: ["text"] }, { schema }]) {
      const { prepared } = await again(runs, { input: { ...input, ...reading } });
      expect(prepared).toEqual({ hits: 0, misses: 5 });
    }
    // The second shard has the same bytes, and other fields.
    runs.writeInput(["no,text", ...records]);
    expect((await again(runs, { input })).prepared).toEqual({ hits: 0, misses: 5 });
  });

  it("keeps lists and empty ones, and nothing of a row that cannot be rendered", async () => {
    const lists = ['{"list":["a","b"]}', '{"list":"none"}', '{"list":[]}'];
    const prompt = { prompt: "{{ item }}", forEach: "list" };
    const runs = memoryRuns(lists, { preparedDir, prompt });
    const first = await again(runs);
    expect(first.answers).toEqual([["a", "b"], []]);
    expect(await again(runs)).toEqual({ ...first, prepared: { hits: 2, misses: 1 } });
  });

  it("serves rows in any order", async () => {
    const ordered = memoryRuns(rowsOf(12).reverse(), { preparedDir, order: "prefix" });
    const { answers } = await again(ordered);
    expect((await again(ordered)).answers).toEqual(answers);
    expect((await again(ordered)).prepared).toEqual({ hits: 12, misses: 0 });
  });

  it("keeps nothing of a shard that was not read whole", async () => {
    const { context } = await plannedRun(rowsOf(6), { shard: { rows: 6 } });
    const storage = memoryStorage();
    const read = async (rows: number, most: number) => {
      const all = inputRows(rowsOf(rows));
      const batches = [all.slice(0, 3), all.slice(3)].filter((it) => it.length > 0);
      let taken = 0;
      for await (const { length } of await preparing(context, storage, batches)) {
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
