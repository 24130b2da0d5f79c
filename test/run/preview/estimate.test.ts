import { describe, expect, it } from "vitest";
import type { Clock } from "../../../src/foundation/clock.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import {
  estimateFrom,
  estimateFromCosts,
  type RowCost,
  sampleRequests,
} from "../../../src/run/preview/estimate.ts";
import { plannedRun } from "../run-fixture.ts";

const sampledFrom = async (rows: readonly string[], changes: Partial<JobInput>) => {
  const { context } = await plannedRun(rows, changes);
  const { plan } = context;
  const facts = { job: plan.job, plan, sampled: await sampleRequests(context) };
  return { facts, estimate: estimateFrom(plan.job, plan, facts.sampled) };
};

const estimated = async (rows: readonly string[], changes: Partial<JobInput>) =>
  (await sampledFrom(rows, changes)).estimate;

describe("sampleRequests", () => {
  const rows = Array.from({ length: 30 }, () => '{"text":"four"}');

  it("hears an abort between rows that take long to render", async () => {
    const { context } = await plannedRun(rows);
    const stop = new AbortController();
    let [elapsedMs, turns] = [0, 0];
    const clock: Clock = {
      now: () => 0,
      monotonic: () => (elapsedMs += 100),
      schedule(_, callback) {
        if (++turns === 3) stop.abort();
        queueMicrotask(callback);
        return () => {};
      },
    };
    expect(await sampleRequests({ ...context, clock }, stop.signal)).toHaveLength(2);
    expect(turns).toBe(3);
  });
});

describe("estimateFrom", () => {
  const rows = Array.from({ length: 30 }, () => '{"text":"four"}');

  it("counts a prompt's characters, and every answer at its longest", async () => {
    const { requests, tokens, usd, seconds, basis } = await estimated(rows, {
      prompt: "{{ text }}",
      generation: { maxNewTokens: 100 },
    });
    expect(requests).toEqual({ planned: 30, estimated: 30, low: 30, high: 30 });
    expect(tokens.prompt).toEqual({ estimated: 30, low: 30, high: 30 });
    expect(tokens.completion).toEqual({ estimated: 3000, low: 0, high: 3000 });
    expect([usd, seconds, basis]).toEqual([null, null, "characters"]);
  });

  it("counts several answers to a prompt, by the default length where none is given", async () => {
    const generation = { numReturnSequences: 3, temperature: 1 };
    expect((await estimated(rows, { generation })).tokens.completion.high).toBe(30 * 3 * 256);
    const server = { engine: "openai", name: "m", baseUrl: "http://127.0.0.1:1" } as const;
    const llama = { engine: "llama", name: "m" } as const;
    for (const [model, tokens] of [
      [server, { limitedBy: "nothing", defaultLimit: 256 }],
      [llama, { limitedBy: "engine", defaultLimit: 1024 }],
    ] as const) {
      expect((await estimated(rows, { model })).tokens).toMatchObject(tokens);
      const limited = await estimated(rows, { model, generation: { maxNewTokens: 9 } });
      expect(limited.tokens).toMatchObject({ limitedBy: "job", completion: { high: 30 * 9 } });
    }
    const bounded = { ...generation, maxLength: 101 };
    const { tokens } = await estimated(rows, { generation: bounded });
    expect(tokens.completion.high).toBe(30 * 3 * 100);
  });

  it("knows the requests of lists only from the sample, which leaves out broken rows", async () => {
    const lists = ['{"list":["a","b"]}', "{broken", '{"list":["c"]}', '{"list":[]}'];
    const prompt = { prompt: "{{ item }}", forEach: "list" };
    const { requests } = await estimated(lists, { prompt });
    expect(requests).toMatchObject({ planned: null, estimated: 4 });
  });

  it("says by how much the rows that it did not see may differ", async () => {
    const random = seededRandom(8);
    const many = Array.from({ length: 900 }, () => {
      return JSON.stringify({ text: "x".repeat(Math.floor(random.next() * 100)) });
    });
    const { tokens } = await estimated(many, { prompt: "{{ text }}", shard: { rows: 100 } });
    const truth = many.reduce((sum, row) => sum + JSON.parse(row).text.length, 0) / 4;
    expect(tokens.prompt.low).toBeLessThan(truth);
    expect(tokens.prompt.high).toBeGreaterThan(truth);
    expect(tokens.prompt.high - tokens.prompt.low).toBeLessThan(truth / 2);
  });

  it("prices the bounds, answers at their longest", async () => {
    const prices = { promptUsdPerMillion: 1000, completionUsdPerMillion: 10_000 };
    const { usd } = await estimated(rows, {
      prompt: "{{ text }}",
      generation: { maxNewTokens: 100 },
      prices,
    });
    expect(usd).toEqual({ estimated: 30.03, low: 0.03, high: 30.03 });
  });
});

describe("estimateFromCosts", () => {
  // Prompts of very different lengths, 2.5 characters a token: the ratio is the same for all.
  const rows = Array.from({ length: 400 }, (_, at) => `{"text":"${"x".repeat(10 + (at % 200))}"}`);
  const prices = {
    promptUsdPerMillion: 1000,
    cachedPromptUsdPerMillion: 0,
    completionUsdPerMillion: 10_000,
  };
  const changes = { prompt: "{{ text }}", shard: { rows: 10 }, prices };
  const costOf = (characters: number, task: number, more: Partial<RowCost> = {}): RowCost => ({
    task,
    characters,
    usage: {
      promptTokens: characters / 2.5,
      cachedTokens: characters / 5,
      completionTokens: 20 + (characters % 7),
    },
    seconds: 2,
    ...more,
  });
  const costs = [10, 40, 90, 100, 150, 180, 199, 205].map((characters, task) =>
    costOf(characters, task),
  );
  const pace = { startSeconds: 5, together: { estimated: 8, low: 4, high: 16 } };

  it("scales prompt tokens by characters, and all else by rows", async () => {
    const { facts, estimate } = await sampledFrom(rows, changes);
    const found = estimateFromCosts(estimate, facts, costs, pace, "measured");
    const characters = estimate.tokens.prompt.estimated * 4;
    expect(found.tokens.charactersPerToken).toBe(2.5);
    expect(found.tokens.prompt.estimated).toBe(Math.round(characters / 2.5));
    // Only how long the other rows' prompts are is uncertain.
    const spread = (it: { estimated: number; high: number }) => it.high / it.estimated;
    expect(spread(found.tokens.prompt)).toBeCloseTo(spread(estimate.tokens.prompt), 2);
    const answers = costs.reduce((sum, { usage }) => sum + usage.completionTokens, 0);
    expect(found.tokens.completion.estimated).toBe(Math.round((answers / costs.length) * 400));
    expect(found.tokens.completion.low).toBeLessThan(found.tokens.completion.estimated);
    const [read, written] = [found.tokens.prompt.estimated, found.tokens.completion.estimated];
    expect(found.usd!.estimated).toBeCloseTo(read * 0.0005 + written * 0.01, 1);
    expect(found).toMatchObject({ basis: "measured", measuredRows: 8 });
  });

  it("takes time from how long rows were with the engine, and how many at once", async () => {
    const { facts, estimate } = await sampledFrom(rows, changes);
    const { seconds } = estimateFromCosts(estimate, facts, costs, pace, "measured");
    expect(seconds).toEqual({ estimated: 5 + 800 / 8, low: 5 + 800 / 16, high: 5 + 800 / 4 });
    expect(estimateFromCosts(estimate, facts, costs, undefined, "run").seconds).toBeNull();
  });

  it("scales prompt tokens by rows where characters were not counted", async () => {
    const { facts, estimate } = await sampledFrom(rows, changes);
    const bare = costs.map(({ characters: _, ...cost }) => cost);
    const { tokens } = estimateFromCosts(estimate, facts, bare, undefined, "run");
    const read = costs.reduce((sum, { usage }) => sum + usage.promptTokens, 0);
    expect(tokens.prompt.estimated).toBe(Math.round((read / costs.length) * 400));
  });
});
