import { appendFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import type { HostedEngine } from "../../../src/engines/host/protocol.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";

// Loaded before the program of a host, this stands in for the engines of these kinds.
registerHooks({
  resolve: (specifier, context, next) =>
    /\/hosted-(predictor|transformers)\.ts$/.test(specifier)
      ? { url: import.meta.url, shortCircuit: true }
      : next(specifier, context),
});

/** Like `openHostedPredictor`, after a fetch of three bytes. */
export async function openHostedTransformers(
  options: { mode?: string },
  _onBatch: (requests: number) => void,
  onFetch: (bytes: number) => void,
): Promise<HostedEngine> {
  for (const bytes of [1, 2, 3]) onFetch(bytes);
  return openHostedPredictor(options);
}

/** An engine for host tests: it does what the prompt says. */
export async function openHostedPredictor(options: {
  mode?: string;
  startFile?: string;
}): Promise<HostedEngine> {
  const { mode, startFile } = options;
  if (startFile) appendFileSync(startFile, `${process.pid}\n`);
  if (mode === "refuse") throw new SluiceError("MODEL_CORRUPT", "not this one");
  if (mode === "linger") {
    console.log("waiting for the weights");
    await sleep(600_000);
  }
  if (mode === "crash") {
    process.stderr.write("native code says goodbye\n");
    process.kill(process.pid, "SIGABRT");
    await new Promise(() => {});
  }
  return {
    name: "echo",
    capacity: 3,
    choices: { threads: process.env.UV_THREADPOOL_SIZE ?? "unset" },
    async infer({ prompt = "", origin }, signal, onDelta) {
      console.log(`asked ${prompt}`);
      if (prompt === "spin") for (;;);
      if (prompt === "die") process.kill(process.pid, "SIGKILL");
      if (prompt === "throw") throw new TypeError("a bug of the engine");
      if (prompt === "refuse") throw new SluiceError("PROMPT_TOO_LONG", "by far");
      if (prompt === "hang" || prompt === "die") {
        await new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
        });
      }
      if (prompt === "speak") {
        for (const text of ["0: ", "sp", "eak"]) {
          onDelta?.({ choice: 0, text, tokens: 1 });
          await sleep(30);
        }
      }
      const text = `${origin?.index ?? 0}: ${prompt}`;
      return {
        answers: [{ text, finishReason: "stop", tokens: 1 }],
        usage: { promptTokens: 1, cachedTokens: 0, completionTokens: 1 },
        seconds: 0,
      };
    },
    async tokenize(prompts) {
      if (prompts.some(({ prompt }) => prompt === "die")) process.kill(process.pid, "SIGKILL");
      if (prompts.some(({ prompt }) => prompt === "refuse")) throw new SluiceError("STORE_FAILED");
      const tokens = prompts.map(({ prompt = "" }) => [[], [...Buffer.from(prompt)]]);
      return { tokenizer: "bytes", prompts: tokens };
    },
    async close() {},
  };
}
