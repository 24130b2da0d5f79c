import { basename } from "node:path";
import type { Clock } from "../../foundation/clock.ts";
import { errorFromRecord } from "../../foundation/errors.ts";
import {
  type InferenceRequest,
  type InferenceResponse,
  requestSeed,
} from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { tracingBatches } from "../batching/batch-spans.ts";
import { type Batched, type BatchModel, batched } from "../batching/batched.ts";
import { itemFacts, predictionResponse, requestCost } from "../batching/prediction.ts";
import type { Engine, EngineContext } from "../engine.ts";
import { type HostedClient, openHostedEngine } from "../host/client.ts";
import type { BatchReply } from "../host/protocol.ts";
import { allOpened, type ReplicaShare, shareAmongReplicas } from "../replicas.ts";
import type { HostedPredictorOptions } from "./hosted-predictor.ts";
import type { PredictorModelOptions } from "./options.ts";
import type { PredictorItem } from "./predictor.ts";

/**
 * Opens a predictor: a module of the user's own. Each replica is loaded in an engine host, so that
 * its death costs only a restart; batches are formed here, for whichever replica is free.
 *
 * @throws SluiceError `PREDICTOR_UNUSABLE` if the module cannot be used, `ENGINE_START_FAILED` if
 *   its process ends during loading, or loads for too long, `JOB_INVALID` for more replicas than
 *   GPUs.
 */
export async function openPredictor(
  options: PredictorModelOptions,
  context: EngineContext,
): Promise<Engine> {
  const shares = shareAmongReplicas(options, context.environment);
  const opening = shares.map((share, replica) => openReplica(options, share, replica, context));
  return new PredictorEngine(options, shares, await allOpened(opening), context);
}

function openReplica(
  options: PredictorModelOptions,
  { environment, devices }: ReplicaShare,
  replica: number,
  context: EngineContext,
): Promise<HostedClient> {
  const { module, moduleSha256, maxBatchRows, threads, replicas = 1 } = options;
  const hosted: HostedPredictorOptions = {
    module,
    moduleSha256,
    export: options.export,
    context: {
      modelName: options.name,
      options: options.options,
      maxBatchRows: maxBatchRows === "auto" ? limits.maxAutoBatchRows : maxBatchRows,
      ...{ replica, replicas, threads, devices },
    },
  };
  return openHostedEngine({
    kind: "predictor",
    options: JSON.parse(JSON.stringify(hosted)),
    nativeCalls: limits.maxPredictorNativeCalls,
    loadTimeoutMs: options.loadTimeoutMs,
    context: { ...context, environment: { ...context.environment, ...environment } },
  });
}

class PredictorEngine implements Engine {
  readonly name = "predictor";
  readonly #hosts: readonly HostedClient[];
  readonly #shares: readonly ReplicaShare[];
  readonly #batched: Batched<InferenceRequest, InferenceResponse>;
  readonly #options: PredictorModelOptions;

  constructor(
    options: PredictorModelOptions,
    shares: readonly ReplicaShare[],
    hosts: readonly HostedClient[],
    context: EngineContext,
  ) {
    this.#options = options;
    this.#hosts = hosts;
    this.#shares = shares;
    const models = hosts.map((host) => replicaModel(host, options.timeoutMs, context.clock));
    this.#batched = batched(models, options, tracingBatches(context));
  }

  get capacity(): number {
    return this.#batched.capacity;
  }

  get concurrency(): number {
    return this.#batched.concurrency;
  }

  get choices(): Readonly<Record<string, Json>> {
    const devices = this.#shares.flatMap((share) => share.devices);
    return {
      module: basename(this.#options.module),
      weights: this.#options.moduleSha256 ?? null,
      replicas: this.#hosts.length,
      maxBatchRows: this.#options.maxBatchRows,
      ...(this.#options.threads !== undefined && { threads: this.#options.threads }),
      ...(devices.length > 0 && { gpu: `cuda:${devices.join(",")}` }),
    };
  }

  infer(request: InferenceRequest, signal: AbortSignal): Promise<InferenceResponse> {
    return this.#batched.infer(request, requestCost(request), signal);
  }

  async close(): Promise<void> {
    // A host that still computes is told first, and ended if it does not leave.
    await Promise.all([this.#batched.close(), ...this.#hosts.map((host) => host.close())]);
  }
}

/** One replica, as the batches see it. */
function replicaModel(
  host: HostedClient,
  timeoutMs: number,
  clock: Clock,
): BatchModel<InferenceRequest, InferenceResponse> {
  return {
    async run(batch, signal) {
      const startedMs = clock.monotonic();
      const items = batch.map(itemOf) as unknown as Json[];
      const replies = await host.runBatch(items, signal, timeoutMs);
      const seconds = (clock.monotonic() - startedMs) / 1000;
      return replies.map((reply) => outcomeOf(reply, seconds));
    },
  };
}

function outcomeOf(reply: BatchReply, seconds: number): InferenceResponse | Error {
  return "error" in reply ? errorFromRecord(reply.error) : predictionResponse(reply.value, seconds);
}

function itemOf(request: InferenceRequest): PredictorItem {
  const { row = {}, structure } = request;
  const facts = itemFacts(request);
  const hasWords = facts.prompt !== undefined || facts.messages !== undefined;
  const own = { ...request.parameters, seed: requestSeed(request) };
  return { row, ...facts, parameters: hasWords ? own : undefined, schema: structure?.schema };
}
