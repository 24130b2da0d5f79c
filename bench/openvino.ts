import { findLlamaFiles } from "../test/integration/llama-files.ts";
import { type ChatLoad, chatLoads } from "./chat-loads.ts";
import { assertSameWork, type ChatRun, runChats } from "./chat-runs.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import type { BenchSetting } from "./setting.ts";

const threads = 2;
const goal = 1.5;

/** One row of the comparison: a load, and how many requests both engines compute at once. */
interface Trial {
  name: string;
  load: ChatLoad;
  sequences?: number;
}

/**
 * Generated tokens a second end to end through `sluice run-batch`, engine `openvino` against
 * `llama` with the same GGUF file, prompts and token counts, once from the loaded engine on and
 * once with loading counted. Empty where the model is missing.
 */
export async function benchOpenvino(setting: BenchSetting): Promise<BenchResult[]> {
  const files = await findLlamaFiles();
  if (files.missing !== undefined) {
    console.log(`openvino: skipped, ${files.missing}`);
    return [];
  }
  const { modelPath } = files;
  const results: BenchResult[] = [];
  for (const trial of trialsOf(chatLoads(setting.isSmall ? 0.1 : 1))) {
    const run = (model: string) => () =>
      runChats(setting, trial.load, modelArguments(model, trial));
    const { openvino, llama } = await inTurn(`openvino, ${trial.name}`, setting.rounds, {
      openvino: run(`openvino:${modelPath}`),
      llama: run(modelPath),
    });
    assertSameWork(trial.load, openvino[0]!, llama[0]!);
    results.push(
      result(trial.name, openvino, llama, ({ seconds }) => seconds),
      result(
        `${trial.name}, with loading`,
        openvino,
        llama,
        ({ seconds, loadSeconds }) => seconds + loadSeconds,
      ),
    );
  }
  return results;
}

function trialsOf(loads: readonly ChatLoad[]): Trial[] {
  const [chats] = loads;
  return [
    ...loads.map((load) => ({ name: load.name, load })),
    ...[16, 64].map((sequences) => {
      return { name: `64 chats, ${sequences} at once`, load: chats!, sequences };
    }),
  ];
}

function modelArguments(model: string, { sequences }: Trial): string[] {
  const own = sequences === undefined ? [] : ["--model.sequences", `${sequences}`];
  return ["--model", model, "--model.threads", `${threads}`, ...own];
}

function result(
  name: string,
  own: readonly ChatRun[],
  peer: readonly ChatRun[],
  secondsOf: (run: ChatRun) => number,
): BenchResult {
  const speed = (runs: readonly ChatRun[]) =>
    runs[0]!.generatedTokens / median(runs.map(secondsOf));
  const [value, baseline] = [speed(own), speed(peer)];
  return {
    name: `openvino, ${name}`,
    ...{ value, unit: "tokens/s", baseline, ratio: value / baseline, goal },
  };
}
