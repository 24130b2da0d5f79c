import type { Engine } from "../../engines/engine.ts";
import type { Preparation } from "../../run/dispatch/backend.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { BackendContext } from "../context.ts";
import { workerEnvironment } from "./worker-process.ts";

/** Steps for a job's engine on this machine, with the environment of its workers. */
export interface EngineSteps {
  /** Refuses what is not available, before anything is planned. */
  check(job: JobSpec, preparation: Preparation): Promise<void>;
  prepare(job: JobSpec, preparation: Preparation): Promise<void>;
  /** Fetches what is missing, and opens the engine in this process. */
  open(job: JobSpec, preparation: Preparation): Promise<Engine>;
}

export function engineSteps(
  here: Pick<BackendContext, "environment" | "engineContext">,
): EngineSteps {
  const contextOf = async ({ env }: JobSpec, { logger, signal }: Preparation) => {
    const environment = workerEnvironment(here.environment, env);
    return { ...(await here.engineContext(environment, logger)), signal };
  };
  const steps: EngineSteps = {
    async check(job, preparation) {
      const { checkEngine } = await import("../../engines/prepare-engine.ts");
      await checkEngine(job.model, await contextOf(job, preparation), preparation);
    },
    async prepare(job, preparation) {
      const { prepareEngine } = await import("../../engines/prepare-engine.ts");
      const { install, onStep } = preparation;
      try {
        await prepareEngine(job.model, await contextOf(job, preparation), {
          install,
          ...(onStep && { onProgress: onStep }),
          onWait: (what) => onStep?.({ text: `waiting for another process that fetches ${what}` }),
        });
      } finally {
        onStep?.(undefined);
      }
    },
    async open(job, preparation) {
      await steps.prepare(job, preparation);
      const { openEngine } = await import("../../engines/registry.ts");
      return openEngine(job.model, await contextOf(job, preparation));
    },
  };
  return steps;
}
