import { storeVariables } from "../../data/s3/store-options.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { WorkerHandle } from "../../run/dispatch/dispatch.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import { startWorkerProcess, workerEnvironment } from "./worker-process.ts";

export interface WorkerStarterOptions {
  /** The command line of `sluice`. */
  command: readonly string[];
  /** Workers get it, with the job's `env`. */
  environment: Readonly<Record<string, string | undefined>>;
  /** Receives the log lines of workers. */
  logger: Logger;
}

/**
 * Starts the worker processes of a pool. One may start before the run is known: it loads while the
 * job is read and planned, which takes about as long, and receives its run as its first message.
 */
export class WorkerStarter {
  readonly #options: WorkerStarterOptions;
  #ahead: WorkerHandle | undefined;

  constructor(options: WorkerStarterOptions) {
    this.#options = options;
  }

  /** Starts one worker without a known run. */
  startAhead(): void {
    this.#ahead ??= this.#start(["--stdio"], this.#options.environment);
  }

  /**
   * A worker of a run: the one that started ahead if there is one, else a new process.
   *
   * @param own variables of this worker alone.
   */
  start(
    location: string,
    job: JobSpec,
    generation: number,
    own: Readonly<Record<string, string>> = {},
  ): WorkerHandle {
    const set = {
      ...storeVariables(job.store ?? {}, this.#options.environment),
      ...job.env,
      ...own,
    };
    const environment = workerEnvironment(this.#options.environment, set);
    const ahead = this.#ahead;
    this.#ahead = undefined;
    const changed = Object.values(set).some((value) => value !== null);
    if (ahead && !changed) {
      ahead.channel.send({ type: "run-open", location, generation });
      return ahead;
    }
    // A variable such as NODE_OPTIONS counts only from the start of a process.
    ahead?.kill();
    return this.#start([location, "--stdio", "--generation", String(generation)], environment);
  }

  /** Ends the worker that started ahead and was not needed. */
  close(): void {
    this.#ahead?.kill();
    this.#ahead = undefined;
  }

  #start(
    args: readonly string[],
    environment: Readonly<Record<string, string | undefined>>,
  ): WorkerHandle {
    const [executable, ...main] = this.#options.command;
    const { logger } = this.#options;
    return startWorkerProcess({
      executable: executable!,
      arguments: [...main, "worker", ...args],
      environment,
      logger,
    });
  }
}
