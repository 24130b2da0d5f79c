import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { storeVariables } from "../../data/s3/store-options.ts";
import { jsonLinesChannel } from "../../foundation/channel.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { WorkerHandle } from "../../run/dispatch/dispatch.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import { filled } from "../../run/job/worker-variables.ts";
import type { FromWorker, ToWorker } from "../../run/worker/protocol.ts";

export interface WorkerProcessOptions {
  executable: string;
  /** Arguments up to and including those of `sluice worker RUN --stdio`. */
  arguments: readonly string[];
  environment: Readonly<Record<string, string | undefined>>;
  /** Receives the worker's own log lines. */
  logger: Logger;
}

/** Lines that Node prints below an error's own line. */
const belowError = /^(\s+at |Node\.js v|\s*$)/;

/**
 * Starts a worker process that exchanges JSON lines over stdin and stdout; its stderr is logged.
 */
export function startWorkerProcess(options: WorkerProcessOptions): WorkerHandle {
  const child = spawn(options.executable, options.arguments, {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...options.environment },
  });
  let lastLine = "";
  createInterface({ input: child.stderr }).on("line", (line) => {
    if (!belowError.test(line)) lastLine = line;
    options.logger.log("info", line);
  });
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(`it cannot be started: ${error.message}`));
    child.once("close", (code, signal) => {
      const how = signal ? `ended by ${signal}` : `left with code ${code}`;
      resolve(code === 0 || lastLine === "" ? how : `${how}: ${lastLine}`);
    });
  });
  return {
    channel: jsonLinesChannel<ToWorker, FromWorker>(child.stdout, child.stdin),
    kill: () => void child.kill("SIGKILL"),
    ended,
  };
}

/**
 * The environment of a worker: the caller's, with the job's `env`, in which `${NAME}` means the
 * caller's own value. A null value passes that too, which the worker has anyway; naming it keeps it
 * out of the plan.
 *
 * @throws SluiceError `ENV_MISSING` if the caller lacks a variable that is stored by name.
 */
export function workerEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  env: Readonly<Record<string, string | null>>,
): Record<string, string | undefined> {
  const set = Object.entries(env).flatMap(([name, value]): [string, string][] => {
    if (value === null) return [];
    const { text, missing } = filled(value, environment);
    const [first] = missing;
    if (first === undefined) return [[name, text]];
    throw new SluiceError("ENV_MISSING", `${first}, which runs keep by its name alone`, {
      field: `env.${name}`,
      hint: `set ${first} as it was when the run began`,
    });
  });
  return { ...environment, ...Object.fromEntries(set) };
}

interface WorkerStarterOptions {
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
