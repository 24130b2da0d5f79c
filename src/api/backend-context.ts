import type { BackendContext } from "../backends/context.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Surroundings } from "./surroundings.ts";

/** What backends may use of a process. Loads nothing, so that a worker can be started ahead. */
export function backendContext(surroundings: Surroundings, logger: Logger): BackendContext {
  const { environment, process } = surroundings;
  return {
    ...{ executable: process.executable, environment, logger },
    async engineContext(own, log) {
      const { engineContext } = await import("./run-dependencies.ts");
      return engineContext({ ...surroundings, environment: own }, log);
    },
  };
}
