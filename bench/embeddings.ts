import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { locateEnginePackage } from "../src/engines/packages/packages.ts";
import { engineContext } from "../test/integration/llama-files.ts";
import { findMinilm, missingTransformers } from "../test/integration/transformers-files.ts";
import type { BaselineMessage } from "./embeddings-baseline.ts";
import { wordsUnder } from "./loads.ts";
import { runSluice } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

/** Names a JSONL file whose rows have a text as `question` or `text`. */
const textVariable = "BENCH_TEXTS";

/** Rows of a batch, here and there. */
const batchRows = 16;

const directory = join(dataDirectory, "embeddings");
const inputPath = join(directory, "texts.jsonl");
const baselinePath = join(directory, "baseline.jsonl");

/**
 * Vectors of MiniLM a second, through `sluice run`, from the loaded engine until all is sealed and
 * the program is gone. Baseline: the bare library, loaded, with texts sorted by hand. Beside it
 * rows of one length together against rows as they come.
 */
export async function benchEmbeddings(setting: BenchSetting): Promise<BenchResult[]> {
  const modelPath = findMinilm();
  const missing =
    modelPath === undefined
      ? "MiniLM is not here: npm run peers -- minilm"
      : await missingTransformers();
  if (modelPath === undefined || missing !== undefined) {
    console.log(`embeddings: skipped, ${missing}`);
    return [];
  }
  const texts = writeTexts(setting.isSmall ? 64 : 1280);
  // Vectors of another call may be of other texts.
  rmSync(baselinePath, { force: true });
  const { entry } = await locateEnginePackage("transformers", engineContext, { install: false });
  const baseline = fork(fileURLToPath(new URL("./embeddings-baseline.ts", import.meta.url)));
  try {
    await tell(baseline, { modulePath: entry, modelPath, threads: availableParallelism() });
    const asked = { inputPath, outputPath: baselinePath, rows: batchRows };
    const figures = await inTurn("embeddings", setting.rounds, {
      sluice: () => embed(setting, modelPath, 8),
      baseline: () => tell(baseline, asked),
      inputOrder: () => embed(setting, modelPath, 0),
    });
    const rate = (seconds: readonly number[]) => texts / median(seconds);
    const [value, inputOrder] = [rate(figures.sluice), rate(figures.inputOrder)];
    const bare = rate(figures.baseline);
    const unit = "texts/s";
    return [
      { name: "MiniLM vectors", value, unit, baseline: bare, ratio: value / bare, goal: 0.95 },
      {
        name: "MiniLM vectors, against input order",
        value,
        unit,
        baseline: inputOrder,
        ratio: value / inputOrder,
      },
    ];
  } finally {
    baseline.kill("SIGKILL");
  }
}

/** @returns how many there are. */
function writeTexts(most: number): number {
  const path = process.env[textVariable];
  const texts = path === undefined ? madeTexts(most) : realTexts(path).slice(0, most);
  mkdirSync(directory, { recursive: true });
  const lines = texts.map((text, id) => JSON.stringify({ id, text }));
  writeFileSync(inputPath, `${lines.join("\n")}\n`);
  return texts.length;
}

function realTexts(path: string): string[] {
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  return lines.map((line) => {
    const { question, text = question } = JSON.parse(line) as { question?: string; text?: string };
    if (typeof text === "string") return text;
    throw new Error(`${path}: a row has neither question nor text`);
  });
}

/** Texts of 5 to some 150 words, the long ones rare. */
function madeTexts(count: number): string[] {
  const next = wordsUnder(3);
  return Array.from({ length: count }, (_, at) => {
    const share = ((at * 7919) % count) / count;
    const words = Math.round(5 * 30 ** (share * share));
    return Array.from({ length: words }, next).join(" ");
  });
}

/** @returns seconds. */
async function embed(
  setting: BenchSetting,
  modelPath: string,
  lookAheadBatches: number,
): Promise<number> {
  const output = join(directory, "out.jsonl");
  rmSync(output, { force: true });
  rmSync(`${output}.sluice`, { recursive: true, force: true });
  const job = join(directory, "job.json");
  writeFileSync(
    job,
    JSON.stringify({
      input: { path: inputPath },
      model: {
        engine: "transformers",
        task: "feature-extraction",
        name: modelPath,
        maxBatchRows: batchRows,
        lookAheadBatches,
      },
      output: { path: output },
    }),
  );
  let loadSeconds = 0;
  const run = await runSluice(setting, ["run", "-c", job, "--json"], {
    environment: { SLUICE_HOME: engineContext.homeDirectory },
    onLine: (line, seconds) => {
      if (line.includes('"type":"worker-start"')) loadSeconds = seconds;
    },
  });
  if (loadSeconds === 0) throw new Error("the run did not say when its worker was ready");
  if (lookAheadBatches > 0) assertSame(output);
  return run.seconds - loadSeconds;
}

interface Embedded {
  id: number;
  answer: number[];
}

/** The same vectors, in input order; the first run has nothing to be compared with. */
function assertSame(output: string): void {
  const own = readVectors(output);
  for (const [at, { id }] of own.entries()) {
    if (id !== at) throw new Error(`row ${at} of the results has id ${id}`);
  }
  let other: Embedded[];
  try {
    other = readVectors(baselinePath);
  } catch {
    return;
  }
  for (const [at, { answer }] of own.entries()) {
    const cosine = answer.reduce((sum, value, place) => sum + value * other[at]!.answer[place]!, 0);
    if (!(cosine > 0.9999)) throw new Error(`row ${at} has another vector: cosine ${cosine}`);
  }
}

function readVectors(path: string): Embedded[] {
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as Embedded);
}

async function tell(baseline: ChildProcess, message: BaselineMessage): Promise<number> {
  const answered = once(baseline, "message");
  baseline.send(message);
  const [{ seconds }] = (await answered) as [{ seconds: number }];
  return seconds;
}
