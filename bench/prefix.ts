import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadLibrary } from "../src/engines/llama/node-llama-cpp.ts";
import { findLlamaFiles } from "../test/integration/llama-files.ts";
import { wordsUnder } from "./loads.ts";
import { runSluice } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { median } from "./rounds.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const documents = 24;
const questions = 8;
const documentWords = 200;
const output = join(dataDirectory, "prefix");

interface Measured {
  seconds: number;
  /** Tokens of prompts that were computed. */
  computed: number;
}

/**
 * Questions to documents, shuffled: the tokens of prompts that the engine computes in prefix order,
 * against the fewest possible (the nodes of the tree of all prompts), and the time against input
 * order. Empty where the model is not in the cache.
 */
export async function benchPrefix(setting: BenchSetting): Promise<BenchResult[]> {
  const files = await findLlamaFiles();
  if (files.missing !== undefined) {
    console.log(`prefix: skipped, ${files.missing}`);
    return [];
  }
  const prompts = shuffledPrompts(setting.isSmall ? 3 : documents);
  const input = join(dataDirectory, `prefix-${prompts.length}.jsonl`);
  mkdirSync(dataDirectory, { recursive: true });
  writeFileSync(input, prompts.map((text) => `${JSON.stringify({ text })}\n`).join(""));
  const fewest = treeSize(await tokensOf(prompts, files));
  const sorted = await measured(setting, input, files.modelPath, "prefix");
  const unsorted = await measured(setting, input, files.modelPath, "input");
  const what = `${documents} documents × ${questions} questions`;
  return [
    {
      ...{ name: `${what}, computed`, value: sorted.computed, unit: "tokens", baseline: fewest },
      ...{ ratio: fewest / sorted.computed, atMost: Math.floor(fewest * 1.05) },
    },
    {
      ...{ name: `${what}, prefix order`, value: sorted.seconds, unit: "s" },
      ...{ baseline: unsorted.seconds, ratio: unsorted.seconds / sorted.seconds },
    },
  ];
}

function shuffledPrompts(count: number): string[] {
  const next = wordsUnder(9);
  const text = (words: number) => Array.from({ length: words }, next).join(" ");
  const prompts = Array.from({ length: count }, () => text(documentWords)).flatMap((document) =>
    Array.from({ length: questions }, () => `${document}\nQuestion: where is the ${text(6)}?\n`),
  );
  // A step that shares no factor with the length visits all of them, far from their neighbours.
  const step = 2 * count + 1;
  return prompts.map((_, at) => prompts[(at * step) % prompts.length]!);
}

async function tokensOf(
  prompts: readonly string[],
  { modulePath, modelPath }: { modulePath: string; modelPath: string },
): Promise<number[][]> {
  const library = await loadLibrary(modulePath);
  const llama = await library.getLlama({
    ...{ gpu: "auto", build: "never", maxThreads: 0, logLevel: "warn", progressLogs: false },
    logger() {},
  });
  const model = await llama.loadModel({ modelPath });
  const tokens = prompts.map((prompt) => model.tokenize(prompt, false));
  await model.dispose();
  await llama.dispose();
  return tokens;
}

/** Nodes of the tree of all prompts: what each adds to the one that is sorted before it. */
function treeSize(prompts: readonly number[][]): number {
  const sorted = prompts.toSorted((a, b) => {
    const at = a.findIndex((token, place) => token !== b[place]);
    return at < 0 ? a.length - b.length : (a[at] ?? -1) - (b[at] ?? -1);
  });
  return sorted.reduce((sum, tokens, at) => {
    const before = sorted[at - 1] ?? [];
    const shared = tokens.findIndex((token, place) => token !== before[place]);
    return sum + tokens.length - (shared < 0 ? tokens.length : shared);
  }, 0);
}

async function measured(
  setting: BenchSetting,
  input: string,
  modelPath: string,
  order: "prefix" | "input",
): Promise<Measured> {
  const rounds: Measured[] = [];
  for (let round = 0; round < setting.rounds; round++) {
    rmSync(output, { recursive: true, force: true });
    let readySeconds = 0;
    const job = { prompt: "{{ text }}", api: "completion" };
    const prompts = JSON.stringify({ answer: job });
    const run = await runSluice(
      setting,
      [
        ...["run", "--input", input, "--model", modelPath],
        ...["--prompts", prompts, "--order", order, "--output", output, "--json"],
        ...["--generation.maxNewTokens", "2", "--workers.max", "1"],
      ],
      {
        onLine: (line, seconds) => {
          if (line.includes('"type":"worker-start"')) readySeconds = seconds;
        },
      },
    );
    const manifest = JSON.parse(readFileSync(join(output, "_manifest.json"), "utf8")) as {
      usage: { promptTokens: number; cachedTokens: number };
    };
    const { promptTokens, cachedTokens } = manifest.usage;
    const seconds = run.seconds - readySeconds;
    rounds.push({ seconds, computed: promptTokens - cachedTokens });
    console.log(
      `prefix, order ${order}: ${seconds.toFixed(2)} s, ${rounds.at(-1)!.computed} tokens`,
    );
  }
  const computed = Math.max(...rounds.map((it) => it.computed));
  return { seconds: median(rounds.map((it) => it.seconds)), computed };
}
