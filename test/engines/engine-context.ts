import type { EngineContext } from "../../src/engines/engine.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { greedyParameters, type InferenceRequest } from "../../src/foundation/inference.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { seededRandom } from "../../src/foundation/random.ts";

/** A context of real time and seeded chance, in which nothing can kill the process. */
export function engineContext(changes: Partial<EngineContext> = {}): EngineContext {
  return {
    clock: systemClock,
    random: seededRandom(1),
    logger: silentLogger,
    environment: {},
    homeDirectory: "",
    hostCommand: [],
    killProcess: () => {
      throw new Error("this test kills no process");
    },
    ...changes,
  };
}

/** A chat request of row `index`. */
export function chatRequest(
  index: number,
  changes: Partial<InferenceRequest["parameters"]> = {},
): InferenceRequest {
  return {
    messages: [{ role: "user", content: `What is said of ${index}?` }],
    parameters: {
      ...greedyParameters,
      maxNewTokens: 20,
      seed: 3,
      explicit: ["maxNewTokens", "seed"],
      ...changes,
    },
    origin: { index, promptName: "answer" },
  };
}

/** The error that a promise is rejected with, as data; undefined where it is not rejected. */
export async function rejectionOf(promise: Promise<unknown>) {
  try {
    await promise;
    return undefined;
  } catch (error) {
    return error as Error & Record<string, unknown>;
  }
}
