import type { EngineContext } from "../engines/engine.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Backend } from "../run/dispatch/backend.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** What a backend may use of the coordinating process. */
export interface BackendContext {
  /** The Node that runs workers. */
  executable: string;
  /** Workers get it, with the job's `env`. */
  environment: Environment;
  /** Receives the log lines of workers. */
  logger: Logger;
  /** This machine as engines see it, with other variables. */
  engineContext(
    environment: Environment,
    logger: Logger,
  ): Promise<EngineContext & { workingDirectory: string }>;
}

/** A backend, with what it may do before and after it has a run. */
export interface OpenBackend extends Backend {
  /** Starts slow work that needs no run. The caller is about to open one. */
  startAhead(): void;
  /** Ends what was started ahead and not used. */
  close(): void;
}
