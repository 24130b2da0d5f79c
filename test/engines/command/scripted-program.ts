import { spawn } from "node:child_process";
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

/*
 * A program for engine `command` that does as its first argument says as it starts, and as words in
 * its prompts say later. Answers in capitals, by words for tokens.
 */

interface Item {
  index: number;
  prompt?: string;
  messages?: { content: string }[];
  row?: object;
  parameters: { seed: number };
}

interface Batch {
  batch: number;
  items: Item[];
  parameters: { max_new_tokens: number; num_return_sequences?: number };
}

const [start = "ready", extra = ""] = process.argv.slice(2);
const say = (message: object) => void process.stdout.write(`${JSON.stringify(message)}\n`);
const textOf = ({ prompt, messages = [], row }: Item) =>
  prompt ?? (messages.map(({ content }) => content).join("\n") || JSON.stringify(row));

function answerOf(item: Item, { max_new_tokens, num_return_sequences = 1 }: Batch["parameters"]) {
  const words = textOf(item).toUpperCase().split(" ");
  const kept = words.slice(0, max_new_tokens);
  const answer = {
    text: kept.join(" "),
    completionTokens: kept.length,
    promptTokens: words.length,
    finishReason: kept.length < words.length ? "length" : "stop",
  };
  if (num_return_sequences === 1) return answer;
  return { answers: Array.from({ length: num_return_sequences }, () => answer) };
}

function resultOf(item: Item, parameters: Batch["parameters"]): object {
  const text = textOf(item);
  if (text.includes("VALUE"))
    return { value: { seed: item.parameters.seed, row: item.row ?? null } };
  if (text.includes("ECHO")) return { value: item };
  if (text.includes("REFUSE")) return { error: "not this one" };
  if (text.includes("FULL")) return { error: { code: "PROMPT_TOO_LONG", message: "9 of 8" } };
  if (text.includes("NOTHING")) return {};
  return answerOf(item, parameters);
}

async function answer({ batch, items, parameters }: Batch): Promise<void> {
  const all = items.map(textOf).join("\n");
  if (all.includes("EXIT")) {
    process.stderr.write("the last words\n");
    process.exitCode = 3;
    process.stdin.destroy();
    return;
  }
  if (all.includes("HANG")) return;
  if (all.includes("NOISE")) process.stdout.write("42% done\n");
  if (all.includes("STALE")) say({ batch: batch + 1000, results: [] });
  if (all.includes("THROW")) return say({ batch, error: { message: "ValueError: no such word" } });
  if (all.includes("UNSUPPORTED"))
    return say({ batch, error: { code: "UNSUPPORTED", message: "?" } });
  const room = /ROOM(\d+)/.exec(all)?.[1];
  if (room && items.length > Number(room)) {
    return say({ batch, error: { code: "OUT_OF_MEMORY", message: "no room" } });
  }
  const results = items.map((item) => resultOf(item, parameters));
  if (all.includes("FEW")) results.pop();
  if (start === "slow") await sleep(60);
  if (start === "told" && batch >= 20) {
    appendFileSync(`${extra}-held`, "");
    while (!existsSync(`${extra}-go`)) await sleep(20);
  }
  if (all.includes("SIZE"))
    return say({ batch, results: items.map(() => ({ value: items.length })) });
  say(all.includes("LISTLESS") ? { batch } : { batch, results });
}

async function serve(ready: object): Promise<void> {
  say(ready);
  for await (const line of createInterface({ input: process.stdin }))
    await answer(JSON.parse(line));
}

const starts: Record<string, () => unknown> = {
  ready: () => serve({ ready: 1, name: "capitals", device: process.env.SLUICE_DEVICE ?? "cpu" }),
  slow: () => serve({ ready: 1 }),
  small: () => serve({ ready: 1, maxBatchRows: Number(extra) }),
  // Writes its pid to a file. Later batches wait until another file exists; a third one says so.
  told: () => {
    appendFileSync(extra, `${process.pid}\n`);
    return serve({ ready: 1 });
  },
  // Gets ready with another line.
  says: () => serve(JSON.parse(extra)),
  chatty: () => {
    say({ ready: 1 });
    return serve({ ready: true, at: "later" });
  },
  noisy: () => {
    process.stdout.write("Loading weights\nOK\n");
    return serve({ ready: 1 });
  },
  // Ready the first time only.
  once: () => {
    if (existsSync(extra)) return;
    writeFileSync(extra, "");
    return serve({ ready: 1 });
  },
  // One line that is longer than any may be.
  floods: () => process.stdout.write("x".repeat(65 * 1024 * 1024)),
  draws: () => process.stderr.write("\u001b[1m 10%\r 50%\r100%\u001b[0m\r\n"),
  ends: () => process.stderr.write("no such weights\n"),
  prints: () => process.stdout.write("Hello\nI am no server\n"),
  waits: () => process.stdin.resume(),
  // Neither the end of its stdin nor SIGTERM ends it, and a child of its own is there as well.
  stays: () => {
    process.on("SIGTERM", () => {});
    setInterval(() => {}, 1000);
    const child = spawn("sleep", ["600"], { stdio: "ignore" });
    return serve({ ready: 1, name: `${process.pid} ${child.pid}` });
  },
};

await starts[start]!();
