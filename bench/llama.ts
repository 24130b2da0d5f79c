import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Engine } from "../src/engines/engine.ts";
import { openLlamaFrom } from "../src/engines/llama/engine.ts";
import { greedyParameters } from "../src/foundation/inference.ts";
import { engineContext as context, findLlamaFiles } from "../test/integration/llama-files.ts";
import type { BaselineMessage } from "./llama-baseline.ts";
import type { BenchResult } from "./result.ts";

const maxNewTokens = 64;
const rounds = 2;
const widths = [1, 4, 8, 16];

interface Measured {
  tokens: number;
  seconds: number;
}

/**
 * Generated tokens per second at 1, 4, 8 and 16 prompts at once, prompts included, through the
 * engine and its host; the baseline is node-llama-cpp with its own scheduler on the same threads.
 * Rounds of the two alternate and the best of each counts: a busy neighbour only ever slows down.
 * Empty where the model or the package is not in the cache.
 */
export async function benchLlama(): Promise<BenchResult[]> {
  const files = await findLlamaFiles();
  if (files.missing !== undefined) {
    console.log(`llama: skipped, ${files.missing}`);
    return [];
  }
  const sequences = Math.max(...widths);
  const engine = await openLlamaFrom({ ...files, sequences, contextTokens: 512 }, context);
  const baseline = fork(fileURLToPath(new URL("./llama-baseline.ts", import.meta.url)));
  try {
    const { modelPath, modulePath } = files;
    const threads = engine.choices?.threads as number;
    await tell(baseline, { modelPath, modulePath, threads, sequences });
    const results: BenchResult[] = [];
    for (const width of widths) results.push(await compare(width, engine, baseline));
    return results;
  } finally {
    baseline.kill("SIGKILL");
    await engine.close();
  }
}

async function compare(width: number, engine: Engine, baseline: ChildProcess) {
  let value = 0;
  let base = 0;
  for (let round = 0; round < rounds; round++) {
    const prompts = Array.from({ length: width }, (_, at) => promptOf(round, at));
    value = Math.max(value, rate(await generate(engine, prompts)));
    base = Math.max(base, rate(await tell(baseline, { prompts, maxNewTokens })));
  }
  const name = `llama, ${width} at once`;
  return { name, value, unit: "tokens/s", baseline: base, ratio: value / base };
}

function promptOf(round: number, at: number): string {
  const number = at * 31 + round;
  return `Letter ${number} to a friend who asked how we grow ${at + 2} kinds of apples. Dear`;
}

const rate = ({ tokens, seconds }: Measured) => tokens / seconds;

async function generate(engine: Engine, prompts: string[]): Promise<Measured> {
  const { signal } = new AbortController();
  const started = performance.now();
  const asked = prompts.map((prompt, index) =>
    engine.infer(
      {
        prompt,
        origin: { index, promptName: "p" },
        parameters: {
          ...greedyParameters,
          maxNewTokens,
          seed: 0,
        },
      },
      signal,
    ),
  );
  const responses = await Promise.all(asked);
  const tokens = responses.reduce((sum, { usage }) => sum + usage.completionTokens, 0);
  return { tokens, seconds: (performance.now() - started) / 1000 };
}

async function tell(baseline: ChildProcess, message: BaselineMessage): Promise<Measured> {
  const answered = once(baseline, "message");
  baseline.send(message);
  const [answer] = await answered;
  return answer as Measured;
}
