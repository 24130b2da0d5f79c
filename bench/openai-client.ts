import { Pool } from "undici";
import { modelOptions } from "../src/engines/model-options.ts";
import { openEngine } from "../src/engines/registry.ts";
import { systemClock } from "../src/foundation/clock.ts";
import { greedyParameters } from "../src/foundation/inference.ts";
import { systemRandom } from "../src/foundation/random.ts";

// Asks a server as fast as one process can, through the openai engine or through undici alone, and
// prints the requests a second; start and warm-up are not counted.
// node openai-client.ts engine|undici BASE_URL REQUESTS MAX_IN_FLIGHT

const [way, baseUrl, ...numbers] = process.argv.slice(2) as string[];
const [requests, width] = numbers.map(Number) as [number, number];
const texts = Array.from({ length: 1000 }, (_, at) => `amber anchor apple arrow number ${at}`);

/** Asks one question; `close` lets the connections go, so that the process can end. */
interface Asker {
  ask(index: number): Promise<string>;
  close(): Promise<void>;
}

async function engineAsker(): Promise<Asker> {
  const limits = { timeoutMs: 60_000, maxEndpointDownMs: 0, maxInFlight: width };
  const engine = await openEngine(
    modelOptions.parse({ engine: "openai", name: "bench", baseUrl, ...limits }),
    {
      clock: systemClock,
      random: systemRandom,
      logger: { log() {} },
      environment: {},
      homeDirectory: "/nonexistent",
      hostCommand: [],
      killProcess() {},
    },
  );
  const { signal } = new AbortController();
  const parameters = {
    ...greedyParameters,
    maxNewTokens: 256,
    seed: 0,
  };
  const ask = async (index: number) => {
    const messages = [{ role: "user" as const, content: texts[index % texts.length]! }];
    const request = { messages, parameters, origin: { index, promptName: "p" } };
    return (await engine.infer(request, signal)).answers[0]!.text;
  };
  return { ask, close: () => engine.close() };
}

function undiciAsker(): Asker {
  const url = new URL(baseUrl!);
  const pool = new Pool(url.origin, { connections: width });
  const path = `${url.pathname}/chat/completions`;
  const headers = { "content-type": "application/json" };
  const ask = async (index: number) => {
    const messages = [{ role: "user", content: texts[index % texts.length]! }];
    const body = JSON.stringify({ model: "bench", messages, max_tokens: 256, temperature: 0 });
    const reply = await pool.request({ path, method: "POST", headers, body });
    const completion = (await reply.body.json()) as {
      choices: { message: { content: string } }[];
    };
    return completion.choices[0]!.message.content;
  };
  return { ask, close: () => pool.close() };
}

async function askAll({ ask }: Asker, count: number): Promise<void> {
  let next = 0;
  const loop = async () => {
    for (let index = next++; index < count; index = next++) {
      if ((await ask(index)) === "") throw new Error("an empty answer");
    }
  };
  await Promise.all(Array.from({ length: width }, loop));
}

const asker = way === "engine" ? await engineAsker() : undiciAsker();
await askAll(asker, requests / 4);
const startedMs = performance.now();
await askAll(asker, requests);
const seconds = (performance.now() - startedMs) / 1000;
console.log(JSON.stringify({ perSecond: requests / seconds }));
await asker.close();
