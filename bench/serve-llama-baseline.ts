import { modelOptions } from "../src/engines/model-options.ts";
import { openEngine } from "../src/engines/registry.ts";
import { greedyParameters } from "../src/foundation/inference.ts";
import { engineContext } from "../test/integration/llama-files.ts";

// Asks engine llama as a run does, without a server, and prints the tokens a second as JSON.
// node serve-llama-baseline.ts MODEL REQUESTS AT_ONCE MAX_TOKENS

const [name, ...numbers] = process.argv.slice(2) as string[];
const [requests, width, maxNewTokens] = numbers.map(Number) as [number, number, number];
const words = "amber anchor apple arrow basil beacon birch bridge ".repeat(16);
const engine = await openEngine(modelOptions.parse({ engine: "llama", name }), engineContext);
const { signal } = new AbortController();
const parameters = { ...greedyParameters, temperature: 1, maxNewTokens, seed: 0 };
let sent = 0;
let tokens = 0;

async function sendOnAndOn(last: number): Promise<void> {
  while (sent < last) {
    const index = sent++;
    const messages = [{ role: "user" as const, content: `${index} ${words}` }];
    const origin = { index, promptName: "p" };
    const { usage } = await engine.infer({ messages, parameters, origin }, signal);
    tokens += usage.completionTokens;
  }
}

const all = (last: number) => Promise.all(Array.from({ length: width }, () => sendOnAndOn(last)));
await all(width);
tokens = 0;
const beganMs = performance.now();
await all(width + requests);
const seconds = (performance.now() - beganMs) / 1000;
console.log(JSON.stringify({ tokensPerSecond: tokens / seconds }));
await engine.close();
