import { basename } from "node:path";
import { errorFromRecord } from "../../foundation/errors.ts";
import {
  type InferenceRequest,
  type InferenceResponse,
  noOrigin,
  requestSeed,
  type TextMessage,
} from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { tracingBatches } from "../batching/batch-spans.ts";
import { type Batched, type BatchModel, batched } from "../batching/batched.ts";
import { predictionResponse, requestCost } from "../batching/prediction.ts";
import type { Engine, EngineContext } from "../engine.ts";
import { type HostedClient, openHostedEngine } from "../host/client.ts";
import type { BatchReply } from "../host/protocol.ts";
import { type ReplicaShare, shareAmongReplicas } from "../replicas.ts";
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
  const opened = await Promise.allSettled(opening);
  const hosts = opened.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
  const failed = opened.find((each) => each.status === "rejected");
  if (failed) {
    await Promise.all(hosts.map((host) => host.close()));
    throw failed.reason;
  }
  return new PredictorEngine(options, shares, hosts, context);
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
    const models = hosts.map((host) => new Replica(host, options.timeoutMs, context));
    // If padding counts, it pays to search for rows of one length.
    const lookAheadBatches = options.maxBatchTokens === undefined ? 0 : limits.lookAheadBatches;
    const batches = { ...options, lookAheadBatches };
    this.#batched = batched(models, batches, tracingBatches(context));
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
class Replica implements BatchModel<InferenceRequest, InferenceResponse> {
  readonly #host: HostedClient;
  readonly #timeoutMs: number;
  readonly #clock: EngineContext["clock"];

  constructor(host: HostedClient, timeoutMs: number, { clock }: EngineContext) {
    this.#host = host;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  async run(batch: readonly InferenceRequest[], signal: AbortSignal) {
    const startedMs = this.#clock.monotonic();
    const items = batch.map(itemOf) as unknown as Json[];
    const replies = await this.#host.runBatch(items, signal, this.#timeoutMs);
    const seconds = (this.#clock.monotonic() - startedMs) / 1000;
    return replies.map((reply) => outcomeOf(reply, seconds));
  }
}

function outcomeOf(reply: BatchReply, seconds: number): InferenceResponse | Error {
  return "error" in reply ? errorFromRecord(reply.error) : predictionResponse(reply.value, seconds);
}

function itemOf(request: InferenceRequest): PredictorItem {
  const { prompt, structure, parameters, origin = noOrigin } = request;
  // An engine without parts and tools gets only text.
  const messages = request.messages as readonly TextMessage[] | undefined;
  const { index, promptName, element } = origin;
  const hasWords = prompt !== undefined || messages !== undefined;
  return {
    row: request.row ?? {},
    ...{ index, promptName },
    ...(element !== undefined && { element }),
    ...(prompt !== undefined && { prompt }),
    ...(messages !== undefined && { messages }),
    ...(hasWords && { parameters: { ...parameters, seed: requestSeed(request) } }),
    ...(structure !== undefined && { schema: structure.schema }),
  };
}
