import { type RunParts, runWith } from "../../api/run.ts";
import type { Engine } from "../../engines/engine.ts";
import { type Clock, sleep } from "../../foundation/clock.ts";
import { asSluiceError, type SluiceError } from "../../foundation/errors.ts";
import { samplingTemperature } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { JobInput } from "../../run/job/schema.ts";
import type { RunEvent, RunSummary } from "../../run/status/events.ts";
import type { BatchOptions } from "../options.ts";
import { type Batch, batchPaths } from "./batch.ts";

/** The variable by which workers get the token of the server's batches. */
export const tokenVariable = "SLUICE_BATCH_TOKEN";

/** Longest time of one row: it may wait behind online requests until its batch is stopped. */
export const rowTimeoutMs = 2 * 86_400_000;

/**
 * Rows in flight of a batch, at least and for each slot that its model has when it begins. Those
 * without a slot wait at the model's door, which knows the present ones: also of workers that come
 * later.
 */
const leastInFlight = 256;
const inFlightPerSlot = 8;
/** For requests that are large: those for vectors have many rows each. */
const leastPerSlot = 2;

/** Rows that are given up at once: the server answers others in between. */
const givenUpAtOnce = 64;

export interface BatchRunOptions {
  /** Absolute path or address of the data directory. */
  dataDirectory: string;
  /** Address that answers the rows of this batch, up to and including `/v1`. */
  baseUrl: string;
  token: string;
  /** Requests that the model computes at once. */
  slots: number;
  /** Size of the batch's input. */
  inputBytes: number;
  /** Where rows of batches with copies of their model are answered. */
  place: BatchOptions;
  environment: Readonly<Record<string, string | undefined>>;
  clock: Clock;
  logger: Logger;
  signal: AbortSignal;
  tracing: RunParts["tracing"];
}

/**
 * Carries out the rows of a batch as a run of its own, or continues it: a worker process sends them
 * to this very server, or workers on a cluster answer them with copies of the model. When it is
 * stopped, rows in work have `limits.stopGraceMs` to end. Then each row without an answer gets the
 * reason, from a worker in this process.
 *
 * @throws SluiceError why the run is not sealed; the same call continues it.
 */
export async function runBatch(batch: Batch, options: BatchRunOptions): Promise<RunSummary> {
  const { stopped } = batch;
  const { signal, clock } = options;
  const { copied } = batch.record;
  const { job, place } = copied ? copiedJob(batch, copied, options) : ownJob(batch, options);
  if (!stopped.aborted) {
    try {
      return await runToSeal({ ...job, ...place }, options, AbortSignal.any([signal, stopped]));
    } catch (error) {
      if (!stopped.aborted || signal.aborted) throw error;
    }
  }
  const reason = asSluiceError(stopped.reason);
  return await runToSeal(job, options, signal, {
    openEngine: async ({ engine }) => refusingEngine(engine, reason, clock),
  });
}

interface PlacedJob {
  job: JobInput;
  place?: Pick<JobInput, "backend" | "ray" | "workers">;
}

function ownJob(batch: Batch, options: BatchRunOptions): PlacedJob {
  const model: JobInput["model"] = {
    ...{ engine: "openai", name: batch.object.model ?? "", baseUrl: options.baseUrl },
    apiKeyEnv: tokenVariable,
    maxInFlight: Math.min(limits.maxInFlight, inFlight(batch, options)),
    timeoutMs: rowTimeoutMs,
  };
  return { job: { ...commonJob(batch, options), model, workers: { max: 1 } } };
}

function inFlight({ object }: Batch, { slots: given, inputBytes }: BatchRunOptions): number {
  const slots = Math.max(1, given);
  const least = leastPerSlot * slots;
  if (object.endpoint === "/v1/embeddings") return least;
  const lineBytes = inputBytes / object.request_counts.total;
  const most = Math.floor(limits.maxWaitingRowBytes / lineBytes);
  return Math.max(least, Math.min(most, Math.max(leastInFlight, inFlightPerSlot * slots)));
}

function copiedJob(
  batch: Batch,
  { model, place: begun }: NonNullable<Batch["record"]["copied"]>,
  options: BatchRunOptions,
): PlacedJob {
  const common = commonJob(batch, options);
  const name = batch.object.model ?? "";
  const input = { ...common.input, servedModelName: name };
  // The cluster may have another address by now.
  const { ray, workers } = options.place.backend === "ray" ? options.place : begun;
  return {
    job: { ...common, input, model, output: { ...common.output, modelName: name } },
    place: { backend: "ray", ray, workers },
  };
}

function commonJob(batch: Batch, { dataDirectory }: BatchRunOptions) {
  const { input, output, failed } = batchPaths(batch.id);
  const at = (path: string) => `${dataDirectory}/${path}`;
  return {
    name: batch.id,
    input: { path: at(input), format: "openai-batch" },
    // What a line leaves open is as for online requests.
    generation: { temperature: samplingTemperature, ...batch.record.generation },
    output: { path: at(output), format: "openai-batch", errorFile: at(failed) },
  } satisfies Partial<JobInput>;
}

async function runToSeal(
  job: JobInput,
  { environment, token, logger, tracing }: BatchRunOptions,
  signal: AbortSignal,
  parts: RunParts = {},
): Promise<RunSummary> {
  const isHere = job.backend === undefined;
  const own = isHere ? withoutProxy({ ...environment, [tokenVariable]: token }) : environment;
  // Such as that no node has room.
  const onEvent = (event: RunEvent) => {
    if (event.type === "notice") logger.log("info", `${job.name}: ${event.message}`);
  };
  const options = { environment: own, install: false, logger, signal, ...(!isHere && { onEvent }) };
  const { error, summary } = await runWith(job, options, { tracing, ...parts });
  if (error) throw error;
  return summary;
}

/** Computes nothing: every request fails for one reason. */
function refusingEngine(name: string, reason: SluiceError, clock: Clock): Engine {
  return {
    ...{ name, capacity: givenUpAtOnce },
    async infer() {
      await sleep(clock, 0);
      throw reason;
    },
    async close() {},
  };
}

/** Rows stay on this machine, whatever proxy it has. */
function withoutProxy(environment: BatchRunOptions["environment"]) {
  const { NO_PROXY = "", no_proxy: lower = NO_PROXY } = environment;
  const hosts = [lower, "127.0.0.1"].filter(Boolean).join(",");
  return { ...environment, NO_PROXY: hosts, no_proxy: hosts };
}
