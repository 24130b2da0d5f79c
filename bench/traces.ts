import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { wordsUnder } from "./loads.ts";
import type { Arrival } from "./serve-load.ts";

/** Names the folder that holds published traces. */
const variable = "BENCH_TRACES";
/** One hour of requests to a chat model, published by Azure: time, tokens, tokens of the answer. */
const azureFile = "azure_llm_2023_conv.csv";
/** Requests published by Mooncake; the beginnings of their prompts are shared. */
const mooncakeFile = "mooncake_synthetic_trace.jsonl";

/** A published trace of requests, cut down to what a small model on a processor answers. */
export interface Trace {
  name: string;
  requests: TracedRequest[];
}

interface TracedRequest {
  /** Since the first one, in the time of the trace. */
  atMs: number;
  blocks: Block[];
  maxTokens: number;
}

/** A part of a prompt: the same seed means the same words. */
interface Block {
  seed: number;
  tokens: number;
}

/** Which part of the lengths of a trace is asked for. */
const answerShare = 1 / 8;
const azurePromptShare = 1 / 8;
/** Its prompts consist of blocks of 512 tokens, which become 16. */
const mooncakeBlockTokens = 16;
/** Of Mooncake's conversations, each the requests with the same first block. */
const everyNth = 16;
const maxPromptTokens = 1600;
const maxAnswerTokens = 125;
const tokensPerWord = 1.6;

/** The traces that are there. */
export function readTraces(): Trace[] {
  const azure = azureLines();
  const mooncake = linesOf(mooncakeFile);
  return [
    ...(azure === undefined ? [] : [{ name: "Azure", requests: azureRequests(azure) }]),
    ...(mooncake === undefined ? [] : [{ name: "Mooncake", requests: mooncakeRequests(mooncake) }]),
  ];
}

/** The rows of Azure's trace without their headings; undefined, and a word why, without it. */
export function azureLines(): string[][] | undefined {
  return linesOf(azureFile)
    ?.slice(1)
    .map((line) => line.split(","));
}

function linesOf(name: string): string[] | undefined {
  const folder = process.env[variable];
  const path = folder === undefined ? undefined : join(folder, name);
  if (path === undefined || !existsSync(path)) {
    console.log(`skipped: ${variable} names no folder with ${name}`);
    return undefined;
  }
  return readFileSync(path, "utf8").trim().split(/\r?\n/);
}

function azureRequests(rows: string[][]): TracedRequest[] {
  const timeOf = (text: string) => Date.parse(`${text.slice(0, 23).replace(" ", "T")}Z`);
  return rows.map(([time, prompt, answer], seed) => ({
    atMs: timeOf(time!) - timeOf(rows[0]![0]!),
    blocks: [{ seed, tokens: Math.min(maxPromptTokens, Number(prompt) * azurePromptShare) }],
    maxTokens: answerTokens(Number(answer)),
  }));
}

interface MooncakeLine {
  timestamp: number;
  input_length: number;
  output_length: number;
  /** One for each block of 512 tokens: the same id means the same beginning. */
  hash_ids: number[];
}

function mooncakeRequests(lines: string[]): TracedRequest[] {
  const all = lines.map((line) => JSON.parse(line) as MooncakeLine);
  const conversations = [...new Set(all.map(({ hash_ids: [first] }) => first))];
  const taken = new Set(conversations.filter((_, at) => at % everyNth === 0));
  return all
    .filter(({ hash_ids: [first] }) => taken.has(first))
    .map(({ timestamp, output_length: answer, hash_ids: blocks }) => ({
      atMs: timestamp,
      blocks: blocks
        .slice(0, maxPromptTokens / mooncakeBlockTokens)
        .map((seed) => ({ seed, tokens: mooncakeBlockTokens })),
      maxTokens: answerTokens(answer),
    }));
}

const answerTokens = (traced: number) =>
  Math.min(maxAnswerTokens, Math.max(2, Math.round(traced * answerShare)));

/** How the requests of a trace are sent. */
export interface Replay {
  /** Requests, from the first one on. */
  count: number;
  perSecond: number;
  /** Another one gives other words of the same lengths, which no server has seen. */
  salt: number;
}

/** The first requests of a trace as streamed chats, stretched or pressed to so many a second. */
export function arrivalsOf({ requests }: Trace, { count, perSecond, salt }: Replay): Arrival[] {
  const taken = requests.slice(0, count);
  const firstMs = taken[0]!.atMs;
  const traceMs = Math.max(1, taken.at(-1)!.atMs - firstMs);
  const factor = ((taken.length / perSecond) * 1000) / traceMs;
  return taken.map(({ atMs, blocks, maxTokens }) => ({
    atMs: (atMs - firstMs) * factor,
    body: {
      model: "bench",
      messages: [{ role: "user", content: blocks.map((each) => textOf(each, salt)).join(" ") }],
      max_tokens: maxTokens,
      temperature: 0,
      // So that all generate the same number of tokens.
      ignore_eos: true,
      stream: true,
      stream_options: { include_usage: true },
    },
  }));
}

function textOf({ seed, tokens }: Block, salt: number): string {
  const next = wordsUnder(Math.imul(seed * 64 + salt + 1, 2_654_435_761));
  const count = Math.max(1, Math.round(tokens / tokensPerWord));
  return Array.from({ length: count }, next).join(" ");
}
