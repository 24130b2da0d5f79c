import type { OpenFile } from "../data/open-files.ts";
import type { Storage } from "../data/storage/storage.ts";
import type { Clock } from "../foundation/clock.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Random } from "../foundation/random.ts";
import type { RunDependencies } from "./dependencies.ts";
import type { RunLocation } from "./directory/locate.ts";
import type { RunTraceContext } from "./execute/request-traces.ts";
import { reachOf } from "./plan/job-files.ts";
import type { Plan } from "./plan/plan.ts";

/** Shared context of all work on one generation of one run. */
export interface RunContext {
  storage: Storage;
  /** Rooted at the run directory's parent: merged files are written there. */
  outside: Storage;
  /** Any other place of results. */
  openStorage(location: string): Storage;
  /**
   * The plan; for work on the run, its job is the present one: time-outs and limits may differ from
   * those in `plan.json`.
   */
  plan: Plan;
  /** Opens an input file by its path in the plan. */
  openFile: OpenFile;
  clock: Clock;
  random: Random;
  logger: Logger;
  /** The span of the run's call, for the requests of its workers; undefined if there is none. */
  trace?: RunTraceContext | undefined;
  /** Id of the worker, or of the process if there is none. */
  worker: string;
}

/** The context of an existing run, in the storage where it was found. */
export function runContext(
  location: RunLocation,
  plan: Plan,
  dependencies: RunDependencies,
  worker: string,
  storage: Storage,
): RunContext {
  const { clock, random, logger, openStorage, inputs } = dependencies;
  return {
    storage,
    outside: openStorage(location.outside),
    openStorage,
    plan,
    openFile: inputs.within(reachOf(plan.job)).open,
    clock,
    random,
    logger,
    worker,
  };
}
