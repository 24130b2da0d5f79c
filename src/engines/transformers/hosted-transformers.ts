import { writeSync } from "node:fs";
import { availableParallelism } from "node:os";
import { basename } from "node:path";
import { systemClock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { textLogger } from "../../foundation/logger.ts";
import type { Environment } from "../../foundation/subprocess.ts";
import { type Batched, batched } from "../batching/batched.ts";
import type { Choices, HostedEngine } from "../host/protocol.ts";
import { openTask, type TaskPlace } from "./open-task.ts";
import type { TransformersModelOptions } from "./options.ts";
import type { Task, TaskResult } from "./tasks/task.ts";
import { loadTransformersJs } from "./transformers-js.ts";

/** The worker's settings for the host. */
export interface HostedTransformersOptions extends Omit<TaskPlace, "stray"> {
  /** Path of the package's main module. */
  modulePath: string;
  options: TransformersModelOptions;
  /** Variables about the hub and proxies. */
  environment: Environment;
  /** Digest of a folder's files. */
  sha256?: string;
}

/** Level of the package's log without any output: its errors contain all their inputs. */
const silent = 50;

/** Lines on stderr go to the log of the worker. */
const stderrLogger = textLogger((line) => writeSync(2, line));

/**
 * Loads a model in this process, which is an engine host.
 *
 * @param stray rejects as the first promise of this process that nobody handles.
 * @throws SluiceError `ENGINE_MISSING`, and errors of `openTask`.
 */
export async function openHostedTransformers(
  options: Json,
  onBatch: (requests: number) => void,
  onFetch: (bytes: number) => void,
  stray: Promise<never>,
): Promise<HostedEngine> {
  const given = options as unknown as HostedTransformersOptions;
  const library = await loadTransformersJs(given.modulePath);
  library.env.logLevel = silent;
  const { model } = given;
  if (model.kind === "hub") {
    const { hubFetch } = await import("./hub-files.ts");
    const fetchFile = hubFetch({ ...given, model, logger: stderrLogger, onFetch });
    library.env.fetch = (address) => fetchFile(String(address));
  }
  const task = await openTask(library, given.options, { ...given, stray });
  return new HostedTransformers(task, given, onBatch);
}

class HostedTransformers implements HostedEngine {
  readonly name: string;
  readonly capacity: number;
  readonly concurrency: number;
  readonly choices: Choices;
  readonly #task: Task<unknown>;
  readonly #batched: Batched<unknown, TaskResult>;

  constructor(
    task: Task<unknown>,
    { options, model, sha256 }: HostedTransformersOptions,
    onBatch: (requests: number) => void,
  ) {
    const { task: taskName, dtype, device, threads = availableParallelism() } = options;
    this.#task = task;
    this.#batched = batched([{ run: (batch, signal) => task.run(batch, signal) }], options, {
      ...{ clock: systemClock, logger: stderrLogger, onBatch },
    });
    this.name = model.kind === "hub" ? model.repository : basename(model.path);
    // A growing batch needs waiting rows to grow.
    const isGrowing = options.maxBatchRows === "auto";
    this.capacity = isGrowing ? 2 * limits.maxAutoBatchRows : this.#batched.capacity;
    this.concurrency = isGrowing ? limits.maxAutoBatchRows : this.#batched.concurrency;
    this.choices = { task: taskName, dtype, device, threads, ...(sha256 && { sha256 }) };
  }

  async infer(request: InferenceRequest, signal: AbortSignal): Promise<InferenceResponse> {
    try {
      const { item, cost } = this.#task.itemOf(request);
      const { answers, promptTokens } = await this.#batched.infer(item, cost, signal);
      const completionTokens = answers.reduce((sum, { tokens }) => sum + tokens, 0);
      const usage = { promptTokens, cachedTokens: 0, completionTokens };
      return { answers, usage, seconds: 0 };
    } catch (thrown) {
      if (signal.aborted || thrown instanceof SluiceError) throw thrown;
      // The runtime refuses a graph's inputs row by row; it is sound after that.
      const detail = (thrown as Error).message;
      const hint = "look at the row, and whether the model is whole";
      throw new SluiceError("PREDICTION_FAILED", detail, { cause: thrown, hint });
    }
  }

  async close(): Promise<void> {
    await this.#batched.close();
    await this.#task.close();
  }
}
