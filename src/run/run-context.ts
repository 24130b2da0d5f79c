import type { OpenFile } from "../data/open-files.ts";
import type { Storage } from "../data/storage/storage.ts";
import type { Clock } from "../foundation/clock.ts";
import { sha256Hex } from "../foundation/hashing.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Random } from "../foundation/random.ts";
import type { TraceContext } from "../foundation/telemetry.ts";
import type { Plan } from "./plan/plan.ts";

/** The span of a call that carries out a run. */
export interface RunTraceContext extends TraceContext {
  /** Whether each attempt at a task has a span, whose id is `attemptSpanId`. */
  hasTasks: boolean;
}

/** The id of the span of an attempt: a worker knows it without being told. */
export function attemptSpanId(attempt: string): string {
  return sha256Hex(attempt).slice(0, 16);
}

/** Shared context of all work on one generation of one run. */
export interface RunContext {
  /** Rooted at the run directory. */
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
