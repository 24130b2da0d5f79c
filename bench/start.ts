import { rmSync, watch, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { shortRows } from "./loads.ts";
import { runProgram, runSluice, settleDisk } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const mostMs = 300;
const output = join(dataDirectory, "start");
const countFile = join(dataDirectory, "start-asked.txt");

/**
 * From the start of `sluice run` on 10 rows to the first request, as the engine's file and as a
 * server see it: the command's start, planning, probe of the store, and a worker's start. The
 * baseline is a Node that starts and does nothing. Node's cache of compiled code is warm.
 */
export async function benchStart(setting: BenchSetting): Promise<BenchResult[]> {
  const rounds = setting.isSmall ? 3 : Math.max(9, setting.rounds);
  const server = await listening();
  try {
    const model = ["--model", "openai:bench", "--base-url", server.baseUrl];
    const fake = ["--model", "fake", "--model.countFile", countFile];
    const contenders = {
      node: async () => (await runProgram(["-e", "0"])).seconds * 1000,
      fake: () => msToRequest(setting, fake, firstLineOf(countFile)),
      openai: () => msToRequest(setting, model, server.nextRequest),
    };
    await contenders.fake();
    await contenders.openai();
    const figures = await inTurn("start", rounds, contenders);
    const baseline = median(figures.node);
    const compare = (name: string, values: readonly number[]): BenchResult => {
      const value = median(values);
      return { name, value, unit: "ms", baseline, ratio: baseline / value, atMost: mostMs };
    };
    return [
      compare("start to first request, fake", figures.fake),
      compare("start to first request, openai", figures.openai),
    ];
  } finally {
    server.close();
  }
}

/** Milliseconds from a start until `arrived`, which listens from its call on, resolves. */
async function msToRequest(
  setting: BenchSetting,
  model: readonly string[],
  arrived: () => Promise<void>,
): Promise<number> {
  rmSync(output, { recursive: true, force: true });
  settleDisk();
  const job = ["--input", shortRows(10), "--prompt", "{{ text }}", "--output", output];
  const arrival = arrived().then(() => performance.now());
  const startedMs = performance.now();
  await runSluice(setting, ["run", ...job, ...model, "--quiet"]);
  return (await arrival) - startedMs;
}

function firstLineOf(file: string): () => Promise<void> {
  return () => {
    writeFileSync(file, "");
    return new Promise((resolve) => {
      const watcher = watch(file, () => {
        watcher.close();
        resolve();
      });
    });
  };
}

/** A server in this process, which has nothing else to do meanwhile. */
async function listening() {
  let notify: () => void = () => {};
  const message = { role: "assistant", content: "amber" };
  const reply = JSON.stringify({
    choices: [{ index: 0, message, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 1 },
  });
  const server = createServer((incoming, response) => {
    notify();
    incoming.resume().on("end", () => response.end(reply));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    nextRequest: () =>
      new Promise<void>((resolve) => {
        notify = resolve;
      }),
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
