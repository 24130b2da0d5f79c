import { setTimeout as pause } from "node:timers/promises";
import OpenAI, { toFile } from "openai";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { startSluice } from "./serving.ts";
import type { BenchSetting } from "./setting.ts";

/** What decides is the model, not the cores: 16 at once of 40 ms are 400 answers a second. */
const model = { engine: "fake", latencyMs: 40, capacity: 16 };
const callers = 8;
const pollMs = 50;

interface Answered {
  rows: number;
  /** Of callers beside the batch. */
  requests: number;
  seconds: number;
}

/**
 * A batch alone, and a batch beside online callers: rows and requests together, a second. Counted
 * from a tenth of the rows to nine tenths, so that neither start nor seal decide.
 */
export async function benchServeBulk(setting: BenchSetting): Promise<BenchResult[]> {
  const rows = setting.isSmall ? 400 : 8000;
  const server = await startSluice(setting, { models: { bench: model } });
  const client = new OpenAI({ apiKey: "-", baseURL: server.baseUrl });
  try {
    const rate = async (width: number) => {
      const { rows: done, requests, seconds } = await batchBeside(client, rows, width);
      console.log(`a batch beside ${width} callers: ${done} rows, ${requests} requests`);
      return (done + requests) / seconds;
    };
    const figures = await inTurn("serve bulk", setting.rounds, {
      alone: () => rate(0),
      beside: () => rate(callers),
    });
    const [value, baseline] = [median(figures.beside), median(figures.alone)];
    const name = `serve: rows of a batch and requests of ${callers} callers beside it`;
    return [{ name, value, unit: "answers/s", baseline, ratio: value / baseline, goal: 0.95 }];
  } finally {
    await server.stop();
  }
}

async function batchBeside(client: OpenAI, rows: number, width: number): Promise<Answered> {
  const { id } = await startBatch(client, rows);
  const completed = async (share: number) => {
    for (;;) {
      const { status, request_counts: counts } = await client.batches.retrieve(id);
      if (["failed", "expired", "cancelled"].includes(status)) throw new Error(`batch ${status}`);
      if (counts!.completed >= share * rows) return counts!.completed;
      await pause(pollMs);
    }
  };
  let isOver = false;
  let requests = 0;
  const caller = async () => {
    while (!isOver) {
      await client.chat.completions.create({ model: "bench", messages });
      requests++;
    }
  };
  const before = await completed(0.1);
  const startMs = performance.now();
  const online = Promise.all(Array.from({ length: width }, caller));
  const after = await completed(0.9);
  const answered = {
    rows: after - before,
    requests,
    seconds: (performance.now() - startMs) / 1000,
  };
  isOver = true;
  await online;
  await completed(1);
  return answered;
}

const messages = [{ role: "user" as const, content: "amber anchor apple arrow basil beacon" }];

async function startBatch(client: OpenAI, rows: number): Promise<{ id: string }> {
  const lines = Array.from({ length: rows }, (_, row) => ({
    ...{ custom_id: `row-${row}`, method: "POST", url: "/v1/chat/completions" },
    body: { model: "bench", messages },
  }));
  const text = lines.map((line) => JSON.stringify(line)).join("\n");
  const file = await toFile(Buffer.from(text), "input.jsonl");
  const { id: input } = await client.files.create({ file, purpose: "batch" });
  return client.batches.create({
    ...{ input_file_id: input, endpoint: "/v1/chat/completions", completion_window: "24h" },
  });
}
