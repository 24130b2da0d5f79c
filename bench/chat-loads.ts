import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { wordsUnder } from "./loads.ts";
import { dataDirectory } from "./setting.ts";

/** Chats as lines of an OpenAI batch file, which Sluice and a server are asked alike. */
export interface ChatLoad {
  name: string;
  path: string;
  bodies: ChatBody[];
}

/** What is asked of `/v1/chat/completions`. */
export interface ChatBody {
  messages: { role: "system" | "user"; content: string }[];
  max_tokens: number;
  temperature: 0;
  /** So that both generate the same number of tokens. */
  ignore_eos: true;
}

interface LoadShape {
  chats: number;
  systemWords: number;
  /** Fewest and most words of a question. */
  words: [number, number];
  /** Fewest and most tokens of an answer. */
  tokens: [number, number];
}

const shapes: Record<string, LoadShape> = {
  "64 chats × 64 tokens": { chats: 64, systemWords: 12, words: [50, 50], tokens: [64, 64] },
  // Some 1.5 tokens a word.
  "the same behind 700 tokens": { chats: 64, systemWords: 470, words: [50, 50], tokens: [64, 64] },
  "ragged chats": { chats: 64, systemWords: 1, words: [5, 310], tokens: [8, 128] },
};

/** The loads, the same on every machine; `share` makes them smaller, to try the benchmark. */
export function chatLoads(share = 1): ChatLoad[] {
  return Object.entries(shapes).map(([name, shape], at) => {
    const chats = Math.max(2, Math.round(shape.chats * share));
    const bodies = chatBodies({ ...shape, chats }, at + 1);
    const path = join(dataDirectory, `chats-${at}-${chats}.jsonl`);
    if (!existsSync(path)) store(path, bodies);
    return { name, path, bodies };
  });
}

function chatBodies({ chats, systemWords, words, tokens }: LoadShape, seed: number): ChatBody[] {
  const next = wordsUnder(seed);
  const text = (count: number) => Array.from({ length: count }, next).join(" ");
  const system = text(systemWords);
  // Lengths in an order of their own, so that neither grows with the row.
  const spread = (at: number, [from, to]: [number, number], step: number) =>
    from + ((at * step) % (to - from + 1));
  return Array.from({ length: chats }, (_, at) => ({
    messages: [
      { role: "system", content: system },
      { role: "user", content: `Tell a story of ${text(spread(at, words, 97))}.` },
    ],
    max_tokens: spread(at, tokens, 53),
    temperature: 0,
    ignore_eos: true,
  }));
}

function store(path: string, bodies: readonly ChatBody[]): void {
  mkdirSync(dataDirectory, { recursive: true });
  const lines = bodies.map((body, at) =>
    JSON.stringify({ custom_id: `${at}`, method: "POST", url: "/v1/chat/completions", body }),
  );
  writeFileSync(`${path}.draft`, `${lines.join("\n")}\n`);
  renameSync(`${path}.draft`, path);
}
