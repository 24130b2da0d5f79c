import type { Clock } from "../../../foundation/clock.ts";
import {
  type GenerationParameters,
  greedyParameters,
  type InferenceRequest,
} from "../../../foundation/inference.ts";
import { limits } from "../../../foundation/limits.ts";
import type { Engine } from "../../engine.ts";

/** Requests of one round: as many as are computed at once when nothing else is said. */
export const measuredSequences = 16;
/** Tokens of context that a request of the measurement may have. */
export const measuredContextTokens = 128;

const rounds = 3;
const parameters: GenerationParameters = {
  ...greedyParameters,
  maxNewTokens: 8,
  seed: 0,
};

/**
 * Tokens per second of each engine on the same prompts, 16 at once, read and written tokens
 * counted alike. The engines take turns, and the best of up to three rounds counts: a busy
 * neighbour only ever slows down. No round begins after `limits.maxSpeedMeasureMs`.
 */
export async function compareSpeed(engines: readonly Engine[], clock: Clock): Promise<number[]> {
  const best = engines.map(() => 0);
  const startedAtMs = clock.monotonic();
  for (let round = 0; round < rounds; round++) {
    for (const [at, engine] of engines.entries()) {
      best[at] = Math.max(best[at]!, await tokensPerSecond(engine, round, clock));
    }
    if (clock.monotonic() - startedAtMs > limits.maxSpeedMeasureMs) break;
  }
  return best;
}

async function tokensPerSecond(engine: Engine, round: number, clock: Clock): Promise<number> {
  const { signal } = new AbortController();
  const startedAtMs = clock.monotonic();
  const asked = Array.from({ length: measuredSequences }, (_, index) =>
    engine.infer(requestOf(round, index), signal),
  );
  const usages = (await Promise.all(asked)).map(({ usage }) => usage);
  const seconds = (clock.monotonic() - startedAtMs) / 1000;
  const tokens = usages.reduce(
    (sum, usage) => sum + usage.promptTokens - usage.cachedTokens + usage.completionTokens,
    0,
  );
  return tokens / seconds;
}

/** No two prompts of an engine begin alike: what is computed once would not be measured. */
function requestOf(round: number, index: number): InferenceRequest {
  const number = round * measuredSequences + index;
  const prompt = `${number} letters to a friend who asked how we grow apples: Dear`;
  return { index, promptName: "speed", prompt, parameters, onTooLong: "fail" };
}
