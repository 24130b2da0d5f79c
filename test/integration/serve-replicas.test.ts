import OpenAI from "openai";
import { afterAll, beforeEach, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { modelOptions } from "../../src/engines/model-options.ts";
import { openEngine } from "../../src/engines/registry.ts";
import { WrappedEngine } from "../../src/engines/wrapped-engine.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { greedyParameters } from "../../src/foundation/inference.ts";
import { Workers } from "../../src/serve/workers.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";
import { serveFolder, startServe } from "./served.ts";

const files = await findLlamaFiles();
beforeEach((context) => context.skip(files.missing !== undefined, files.missing));

/** In which the chats send each of their turns. */
const orders = [
  [0, 1, 2, 3],
  [1, 0, 3, 2],
  [2, 3, 1, 0],
];
const { signal } = new AbortController();

/** A chat's messages up to a turn; each chat has a long beginning of its own. */
function messagesOf(chat: string, turn: number, facts: number) {
  const words = Array.from({ length: facts }, (_, at) => `fact${chat}x${at}`).join(" ");
  const said = Array.from({ length: turn }, (_, at) => [
    { role: "user" as const, content: `Question ${at}?` },
    { role: "assistant" as const, content: `Answer ${at}.` },
  ]);
  const system = { role: "system" as const, content: `Know this: ${words}` };
  return [system, ...said.flat(), { role: "user" as const, content: `Question ${turn}?` }];
}

const replicas: Promise<Engine>[] = [];
afterAll(async () => {
  for (const replica of replicas) await (await replica).close();
});

/** A replica of the model, loaded once. */
class Replica extends WrappedEngine {
  static async at(place: number) {
    const name = files.missing ?? files.modelPath;
    const options = modelOptions.parse({ engine: "llama", name, threads: 1, sequences: 4 });
    replicas[place] ??= openEngine(options, engineContext);
    return { engine: new Replica(await replicas[place]), gpus: [] };
  }

  infer(...given: Parameters<Engine["infer"]>) {
    return this.inner.infer(...given);
  }

  override async close() {}
}

/** Sends all chats turn by turn; returns the cached tokens. */
async function cachedBy(name: string, keepsPrefixes: boolean): Promise<number> {
  const workers = new Workers(Replica.at, systemClock, keepsPrefixes);
  await workers.scale(2);
  let cached = 0;
  for (const [turn, order] of orders.entries()) {
    const responses = await Promise.all(
      order.map((chat) => {
        const parameters = { ...greedyParameters, maxNewTokens: 1, seed: 1 };
        return workers.infer({ messages: messagesOf(name + chat, turn, 8), parameters }, signal);
      }),
    );
    cached += responses.reduce((sum, { usage }) => sum + usage.cachedTokens, 0);
  }
  return cached;
}

it("chats find their beginnings in the cache of their replica", async () => {
  // Chats of other names find nothing of one another.
  const leastWork = await cachedBy("a", false);
  const byPrefix = await cachedBy("b", true);
  expect(byPrefix, `${leastWork} by the least work`).toBeGreaterThan(1.5 * leastWork);
});

it("sluice serve loads as many replicas as it is told to, and each chat keeps to one", async () => {
  const name = files.missing ?? files.modelPath;
  const server = await startServe(
    serveFolder(),
    { models: { m: { model: { engine: "llama", name, threads: 1, sequences: 4 }, workers: 2 } } },
    { SLUICE_HOME: engineContext.homeDirectory },
  );
  const client = new OpenAI({ baseURL: server.baseUrl, apiKey: "none", maxRetries: 0 });
  const described = await fetch(`${server.addresses.management}/models/m`);
  expect(await described.json()).toMatchObject([{ workers: [{}, {}] }]);
  const ask = async (chat: number, turn: number) => {
    const messages = messagesOf(`c${chat}`, turn, 16);
    const { usage } = await client.chat.completions.create({ model: "m", messages, max_tokens: 1 });
    return usage!;
  };
  for (let turn = 0; turn < 2; turn++) {
    const usages = await Promise.all([0, 1].map((chat) => ask(chat, turn)));
    for (const { prompt_tokens: all, prompt_tokens_details: details } of usages) {
      if (turn > 0) expect(details!.cached_tokens! / all).toBeGreaterThan(0.8);
    }
  }
});
