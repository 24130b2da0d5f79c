import { Readable } from "node:stream";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { InputRow } from "../../../src/data/row.ts";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import type { Storage } from "../../../src/data/storage/storage.ts";
import type { Engine } from "../../../src/engines/engine.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import type { PromptSet } from "../../../src/prompt/prompt-set.ts";
import type { RowRequest } from "../../../src/prompt/row-request.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { promptSetOf } from "../../../src/run/plan/job-prompts.ts";
import { PreparedPrompts } from "../../../src/run/prepared/prepared-prompts.ts";
import { jobOf, pathsOf, plannedRun } from "../run-fixture.ts";
import { responseOf } from "../scripted-engine.ts";

type Words = Parameters<NonNullable<Engine["tokenize"]>>[0][number];

const tokensOf = ({ messages, prompt }: Words) => {
  const text = messages ? JSON.stringify(messages) : prompt!;
  return [[], [...text].map((character) => character.codePointAt(0)!)];
};
const tokenize: Engine["tokenize"] = async (prompts) => ({
  tokenizer: "a",
  prompts: prompts.map(tokensOf),
});

/** A job of a prompt of one's own, or of whatever asks instead. */
const specOf = (job: object) => jobOf({ prompt: undefined, ...job } as Partial<JobInput>);

interface Prepared {
  promptSet: PromptSet;
  rows: InputRow[];
  counts: { hits: number; misses: number };
}

/** Rows of one task with what is prepared of them, as one process has it. */
async function prepare(job: object, rows: InputRow[], storage: Storage): Promise<Prepared> {
  const spec = specOf(job);
  const asked = promptSetOf(spec, 1);
  const options = { storage, job: spec, promptSet: asked, keeper: asked.keeper! };
  const prompts = new PreparedPrompts({ ...options, tokenize, logger: silentLogger });
  const task = await (await plannedRun(rows.map(({ raw }) => raw))).task(0);
  const counts = { hits: 0, misses: 0 };
  const notePrepared = (more: typeof counts) => {
    counts.hits += more.hits;
    counts.misses += more.misses;
  };
  const prepared = prompts.arrange(Readable.from([rows]), { task, notePrepared });
  const seen: InputRow[] = [];
  for await (const batch of prepared) seen.push(...batch);
  return { promptSet: prompts.promptSet, rows: seen, counts };
}

const inputRows = (values: readonly JsonObject[], datasets: readonly string[]): InputRow[] =>
  values.map((value, index) => ({
    ...{ index, value: { ...value }, raw: JSON.stringify(value) },
    ...{ file: "rows.jsonl", line: index + 1 },
    ...(datasets.length > 0 && { dataset: datasets[index % datasets.length]! }),
  }));

const withoutTokens = (requests: readonly RowRequest[]) =>
  requests.map(({ tokens: _, ...request }) => request);

/** The requests in the words in which they are asked, each answer by its number. */
function allReady(promptSet: PromptSet, requests: readonly RowRequest[]) {
  const responses = requests.map((_, at) => responseOf(`answer ${at}`));
  return requests.map((_, at) => structuredClone(promptSet.ready(requests, responses, at)));
}

const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 30 }),
  fc.constantFrom("", "Bake 5 minutes at 180 C.</s>", " a\n", "\u2028", '{"row":1}\n', "\ud800"),
);
const spoken = fc.record({ from: fc.constantFrom("human", "gpt"), value: text });
const row = fc.record({
  ...{ text, other: text, number: fc.integer(), list: fc.array(text, { maxLength: 4 }) },
  conversations: fc
    .array(spoken, { maxLength: 6 })
    .map((messages) => [
      { from: "system", value: "s" },
      { from: "human", value: "?" },
      ...messages,
    ]),
});

const slots = {
  time: { copyFrom: "item", maxWords: 3, orElse: "-", pattern: ".*\\d.*" },
  all: { copyFrom: "text ~ loop.index" },
};
const line = { line: "time={time}, all={all}", slots };
const listed = { prompt: "{{ text }}: {{ item }}", forEach: "list" };
const copying = {
  ...{ type: "object", required: ["stars", "found"] },
  properties: {
    stars: { type: "integer" },
    found: {
      type: "array",
      items: {
        ...{ type: "object", required: ["word", "other"] },
        properties: {
          word: { type: ["string", "null"], copyFrom: "text", maxWords: 2 },
          other: { type: "string", copyFrom: "number", orElse: "none" },
        },
      },
    },
  },
};
const stars = { type: "integer", minimum: 1, maximum: 5 };
const turns = { type: "sharegpt", turns: "every" } as const;
const written = { ...turns, typeOptions: { conversation: "chatml" } } as const;

const jobs: Record<string, object> = {
  "one prompt": { prompt: "Say {{ text }}" },
  messages: {
    prompt: { system: "{{ other }}", messages: [{ role: "user", content: "{{ text }}" }] },
  },
  "a completion that is cut and cleaned": {
    prompt: {
      ...{ prompt: "{{ text }}", api: "completion", onTooLong: "truncate-left" },
      ...{ stripWhitespace: true, eosToken: "</s>" },
    },
  },
  "a list": { prompt: listed },
  "a list of lines": { prompt: { ...listed, answer: line } },
  "a line": {
    prompt: { prompt: "{{ text }}", answer: { line: "={a}", slots: { a: { copyFrom: "text" } } } },
  },
  "a schema": { prompt: "{{ text }}", schema: stars },
  "a schema that copies": { prompt: "{{ text }}", schema: copying },
  "a list with a schema that copies": { prompt: { ...listed, schema: copying } },
  "a conversation turn by turn": { prompt: turns },
  "a completion turn by turn": { prompt: { ...written, eosToken: "</s>", stripWhitespace: true } },
  "many prompts": {
    prompts: {
      first: turns,
      plain: { prompt: "{{ text }}", schema: stars },
      list: { ...listed, answer: line },
      again: { ...listed, api: "completion", answer: line },
      last: written,
      emptied: { prompt: "{{ text }}{{ other }}", truncateFeatures: ["other"] },
    },
  },
  "answers that are stripped": { prompt: turns, output: { path: "/out", stripWhitespace: true } },
  "lines of OpenAI": { prompt: "{{ text }}", output: { path: "/out", format: "openai-batch" } },
  "several answers": { prompt: listed, generation: { numReturnSequences: 2, temperature: 1 } },
};
const datasets = {
  input: undefined,
  dataset: [
    { name: "talks", path: "talks.jsonl", ...turns },
    { name: "texts", path: "texts.jsonl", type: "completion" },
  ],
};

describe("what is prepared", () => {
  it.each(Object.entries({ ...jobs, datasets }))("is what rendering makes: %s", async (_, job) => {
    const names = job === datasets ? datasets.dataset.map(({ name }) => name) : [];
    const rows = fc.array(row, { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(rows, async (values) => {
        const storage = memoryStorage();
        const made = await prepare(job, inputRows(values, names), storage);
        const found = await prepare(job, inputRows(values, names), storage);
        expect(made.counts).toEqual({ hits: 0, misses: values.length });
        expect(found.counts).toEqual({ hits: values.length, misses: 0 });
        const rendering = promptSetOf(specOf(job), 1);
        for (const { promptSet, rows: ready } of [made, found]) {
          for (const { value, index, dataset } of ready) {
            const fresh = rendering.requests({ ...value }, index, dataset);
            const prepared = promptSet.requests(value!, index, dataset);
            expect(withoutTokens(prepared)).toStrictEqual(fresh);
            expect(JSON.stringify(withoutTokens(prepared))).toBe(JSON.stringify(fresh));
            const asked = fresh.map((request) =>
              request.origin.after === undefined ? tokensOf(request as Words) : undefined,
            );
            expect(prepared.map(({ tokens }) => tokens)).toEqual(asked);
            const inTurn = withoutTokens(allReady(promptSet, prepared));
            expect(inTurn).toStrictEqual(allReady(rendering, fresh));
          }
        }
      }),
      { numRuns: 30, seed: 11 },
    );
  });

  it("holds neither schemas nor grammars, and a text to copy from once a row", async () => {
    const storage = memoryStorage();
    const value = { text: "UNIQUE words", other: "", number: 4, list: ["a", "b"] };
    const copied = "{{ number }} {{ item }}";
    const prompt = { ...listed, prompt: copied, schema: copying };
    await prepare({ prompt }, inputRows([value, value], []), storage);
    const [path = ""] = await pathsOf(storage, "");
    const [first = ""] = Buffer.from(await storage.read(path))
      .toString()
      .split("\n");
    expect(JSON.parse(first).kept.texts).toEqual(["UNIQUE words", "4"]);
    expect(first.match(/UNIQUE/g)).toHaveLength(1);
    expect(first).not.toMatch(/grammar|schema|properties|maxNewTokens|onTooLong/);
  });

  it("holds each message of a conversation once", async () => {
    const storage = memoryStorage();
    const messages = ["one", "two", "three"].flatMap((value) => [
      { from: "human", value },
      { from: "gpt", value: "-" },
    ]);
    const rows = inputRows([{ conversations: messages }], []);
    await prepare({ prompt: turns }, rows, storage);
    const [path = ""] = await pathsOf(storage, "");
    const kept = Buffer.from(await storage.read(path)).toString();
    expect(kept.match(/one|two|three/g)).toEqual(["one", "two", "three"]);
  });

  it("leaves out a row whose requests are longer than a line may be", async () => {
    const storage = memoryStorage();
    const long = "x".repeat(limits.maxLineBytes / 4);
    const rows = () => inputRows([{ list: ["a"] }, { list: [long, long] }, { list: ["b"] }], []);
    const job = { prompt: { prompt: "{{ item }}{{ item }}", forEach: "list" } };
    await prepare(job, rows(), storage);
    const found = await prepare(job, rows(), storage);
    expect(found.counts).toEqual({ hits: 2, misses: 1 });
    const [request] = found.promptSet.requests(found.rows[1]!.value!, 1);
    expect(request!.messages![0]!.content).toHaveLength(2 * long.length);
  });

  it("is another file for another schema, from which it may copy something else", async () => {
    const storage = memoryStorage();
    const rows = () => inputRows([{ text: "a", other: "b" }], []);
    const sources: unknown[] = [];
    for (const copyFrom of ["text", "other"]) {
      const schema = { type: "string", copyFrom };
      const job = { prompt: "Say", schema };
      const { promptSet, rows: ready, counts } = await prepare(job, rows(), storage);
      expect(counts.hits).toBe(0);
      const [request] = promptSet.requests(ready[0]!.value!, 0);
      sources.push(request!.structure!.copies![0]!.source);
    }
    expect(sources).toEqual(["a", "b"]);
  });
});
