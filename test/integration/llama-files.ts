import { join } from "node:path";
import type { EngineContext } from "../../src/engines/engine.ts";
import { resolveModel } from "../../src/engines/models/models.ts";
import { locateEnginePackage } from "../../src/engines/packages/packages.ts";
import { entryCommand } from "../../src/entry.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { systemRandom } from "../../src/foundation/random.ts";

const { SLUICE_HOME, XDG_CACHE_HOME, HOME = "/" } = process.env;

/** The real outside world, with the user's own cache of models and packages. */
export const engineContext: EngineContext = {
  clock: systemClock,
  random: systemRandom,
  logger: silentLogger,
  environment: process.env,
  homeDirectory: SLUICE_HOME ?? join(XDG_CACHE_HOME ?? join(HOME, ".cache"), "sluice"),
  hostCommand: entryCommand("engines/host/main", process.execPath),
  killProcess: () => process.kill(process.pid, "SIGKILL"),
};

/** The embedded model and the engine's package; or why a test cannot run here. */
export type LlamaFiles =
  | { modelPath: string; modulePath: string; missing?: undefined }
  | { missing: string };

/** Looks in the cache; fetches nothing. */
export async function findLlamaFiles(): Promise<LlamaFiles> {
  try {
    const model = await resolveModel("smollm2-135m-instruct", engineContext, { download: false });
    const { entry } = await locateEnginePackage("llama", engineContext, { install: false });
    return { modelPath: model.path, modulePath: entry };
  } catch (error) {
    return { missing: (error as Error).message };
  }
}
