import { join } from "node:path";
import type { EngineContext } from "../../src/engines/engine.ts";
import { resolveModel } from "../../src/engines/models/models.ts";
import { locateEnginePackage } from "../../src/engines/packages/packages.ts";
import { entryCommand } from "../../src/entry.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { systemRandom } from "../../src/foundation/random.ts";

const root = join(import.meta.dirname, "../..");

/** The real outside world, with the cache of models and packages that all tests here share. */
export const engineContext: EngineContext = {
  clock: systemClock,
  random: systemRandom,
  logger: silentLogger,
  environment: process.env,
  homeDirectory: process.env.SLUICE_HOME ?? join(root, ".cache", "sluice"),
  hostCommand: entryCommand("engines/host/main", process.execPath),
  killProcess: () => process.kill(process.pid, "SIGKILL"),
};

/**
 * The embedded model and the engine's package, or why a test cannot run here. One thread: several
 * wait for one another where a neighbour computes, many times as long. `recipe-answers.test.ts` has
 * as many as there are cores, as users have.
 */
export type LlamaFiles =
  | { modelPath: string; modulePath: string; threads: 1; missing?: undefined }
  | { missing: string };

/** Fetches what is not here yet: 85 MB of engine and 98 MB of model, once. */
export async function findLlamaFiles(): Promise<LlamaFiles> {
  try {
    const model = await resolveModel("smollm2-135m-instruct", engineContext, { download: true });
    const { entry } = await locateEnginePackage("llama", engineContext, { install: true });
    return { modelPath: model.path, modulePath: entry, threads: 1 };
  } catch (error) {
    return { missing: (error as Error).message };
  }
}

/** Fetches what is not here yet: 300 MB of packages and 98 MB of model, once. */
export async function whyOpenvinoIsMissing(): Promise<string | undefined> {
  try {
    await resolveModel("smollm2-135m-instruct", engineContext, { download: true });
    await locateEnginePackage("openvino", engineContext, { install: true });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
