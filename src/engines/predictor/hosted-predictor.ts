import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { basename, dirname } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { toCodeValue } from "../../foundation/exact-json.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import type { Json } from "../../foundation/json.ts";
import { jsonResult } from "../../foundation/json-result.ts";
import { miscounted } from "../batching/miscounted.ts";
import { isOutOfMemory } from "../batching/out-of-memory.ts";
import type { BatchReply, HostedEngine } from "../host/protocol.ts";
import { explained } from "../user-module.ts";
import { archivePredictor } from "./archive-predictor.ts";
import { loadPredictorModule } from "./load-module.ts";
import type { Predictor, PredictorContext, PredictorItem } from "./predictor.ts";

/** The worker's settings for the host of a replica. */
export interface HostedPredictorOptions {
  /** Absolute path of the module. */
  module: string;
  export?: string | undefined;
  /** The expected digest of the module's file. */
  moduleSha256?: string | undefined;
  context: Omit<PredictorContext, "directory" | "threads" | "device"> & {
    threads?: number | undefined;
  };
}

/**
 * Loads a predictor in this process, which is an engine host.
 *
 * @throws SluiceError `PREDICTOR_UNUSABLE`, with the file and its fault.
 */
export async function openHostedPredictor(options: Json): Promise<HostedEngine> {
  const given = options as unknown as HostedPredictorOptions;
  await assertUnchanged(given);
  const found = await loadPredictorModule(given.module, given.export);
  const predictor = given.context.options.manifest === undefined ? found : archivePredictor(found);
  await load(predictor, given);
  return new HostedPredictor(predictor, given);
}

async function assertUnchanged({ module, moduleSha256 }: HostedPredictorOptions): Promise<void> {
  if (moduleSha256 === undefined) return;
  const found = await readFile(module).then(sha256Hex, (cause: Error) => {
    const detail = `${basename(module)}: ${cause.message}`;
    throw new SluiceError("PREDICTOR_UNUSABLE", detail, { file: module, cause });
  });
  if (found === moduleSha256) return;
  const detail = `${basename(module)}: it is not the one that the run was planned with`;
  throw new SluiceError("PREDICTOR_UNUSABLE", detail, {
    file: module,
    field: "model.moduleSha256",
    hint: "bring it back, or start a new run: --fork writes beside this one",
  });
}

async function load(
  predictor: Predictor,
  { module, context }: HostedPredictorOptions,
): Promise<void> {
  const { replicas, devices, threads } = context;
  try {
    await predictor.load?.({
      ...context,
      directory: dirname(module),
      device: devices.length > 0 ? "cuda:0" : undefined,
      threads: threads ?? Math.max(1, Math.floor(availableParallelism() / replicas)),
    });
  } catch (thrown) {
    if (thrown instanceof SluiceError) throw thrown;
    const detail = `${basename(module)}: load failed: ${explained(thrown, module)}`;
    throw new SluiceError("PREDICTOR_UNUSABLE", detail, { file: module, cause: thrown });
  }
}

class HostedPredictor implements HostedEngine {
  readonly name = "predictor";
  readonly choices = {};
  readonly capacity: number;
  readonly #predictor: Predictor;
  readonly #module: string;
  /** The batch in work; one at a time, also if the last one was given up. */
  #running: Promise<unknown> = Promise.resolve();

  constructor(predictor: Predictor, { module, context }: HostedPredictorOptions) {
    this.#predictor = predictor;
    this.#module = module;
    this.capacity = context.maxBatchRows;
  }

  runBatch(items: readonly Json[], signal: AbortSignal): Promise<readonly BatchReply[]> {
    const replies = this.#running.then(() => this.#compute(items, signal));
    this.#running = replies.catch(() => {});
    return replies;
  }

  async close(): Promise<void> {
    await this.#running;
    await this.#predictor.close?.();
  }

  async #compute(items: readonly Json[], signal: AbortSignal): Promise<readonly BatchReply[]> {
    const batch = items.map(toCodeValue) as unknown as readonly PredictorItem[];
    let results: unknown;
    try {
      results = await this.#predictor.predict(batch, { signal });
    } catch (thrown) {
      throw this.#named(thrown);
    }
    if (!Array.isArray(results) || results.length !== batch.length) {
      throw miscounted(results, batch.length);
    }
    const settled = await Promise.allSettled(results);
    return settled.map((each) =>
      each.status === "fulfilled"
        ? this.#reply(each.value)
        : { error: this.#named(each.reason).toJSON() },
    );
  }

  #reply(result: unknown): BatchReply {
    if (result instanceof Error) return { error: this.#named(result).toJSON() };
    try {
      return { value: jsonResult(result) };
    } catch (thrown) {
      return { error: this.#named(thrown).toJSON() };
    }
  }

  #named(thrown: unknown): SluiceError {
    if (thrown instanceof SluiceError) return thrown;
    const code = isOutOfMemory(thrown) ? "OUT_OF_MEMORY" : "PREDICTION_FAILED";
    return new SluiceError(code, explained(thrown, this.#module), { cause: thrown });
  }
}
