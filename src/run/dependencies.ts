import type { InputStores } from "../data/sources/open.ts";
import type { Storage } from "../data/storage/storage.ts";
import type { EngineContext } from "../engines/engine.ts";
import type { Clock } from "../foundation/clock.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Random } from "../foundation/random.ts";
import type { Telemetry, TraceContext } from "../foundation/telemetry.ts";
import type { Processes } from "./coordinate/processes.ts";
import type { RunTraceContext } from "./execute/request-traces.ts";

/** What the run floor may use of the outside world. */
export interface RunDependencies {
  clock: Clock;
  random: Random;
  logger: Logger;
  processes: Processes;
  openStorage(location: string): Storage;
  /** Where input files are found and opened. */
  inputs: InputStores;
  software: string;
  /** By which a call tells a provider that its batches are over; absent: it tells none. */
  engineContext?(): EngineContext;
  /** Where spans go; undefined where nobody asked for them. */
  telemetry?: Telemetry | undefined;
  /** The span to which the call belongs that carries out a run. */
  caller?: TraceContext | undefined;
  /** The span of that call. */
  trace?: RunTraceContext | undefined;
}
