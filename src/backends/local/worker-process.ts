import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { jsonLinesChannel } from "../../foundation/channel.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { WorkerHandle } from "../../run/dispatch/dispatch.ts";
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
