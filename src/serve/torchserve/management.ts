import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Engine } from "../../engines/engine.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import type { Logger } from "../../foundation/logger.ts";
import { assertShallow, namedError } from "../listener.ts";
import { mostWorkers } from "./archive-options.ts";
import type { ModelStore } from "./model-store.ts";
import { answered } from "./predictions.ts";
import type { Registration, Registry } from "./registry.ts";
import { jsonReply, Refusal, refusals, sendFailure, type TorchReply } from "./replies.ts";

export interface ManagementRoutes {
  registry: Registry;
  store: ModelStore;
  logger: Logger;
  /** Whether this address has no routes of OpenAI's API, whose paths are similar. */
  isAlone: boolean;
}

/** The management address of TorchServe: models are registered, scaled, described and removed. */
export function managementRoutes(server: FastifyInstance, routes: ManagementRoutes): void {
  const { registry, isAlone } = routes;
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", { parseAs: "string" }, (_request, body, done) => {
    done(null, body);
  });
  server.setErrorHandler((error, request, reply) => {
    if (!reply.raw.headersSent) sendFailure(namedError(error), reply, request);
  });
  for (const url of ["/models", "/models/*"]) {
    server.route({
      method: ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"],
      url,
      handler: (request, reply) => answered(request, reply, () => manage(request, routes)),
    });
  }
  if (!isAlone) return;
  server.get<{ Params: { model: string } }>("/v1/models/:model", (request, reply) =>
    answered(request, reply, async () => {
      const { name, served } = registry.find(request.params.model);
      return jsonReply({ name, ready: served.workers.all.length > 0 });
    }),
  );
}

async function manage(request: FastifyRequest, routes: ManagementRoutes): Promise<TorchReply> {
  const { registry } = routes;
  const [, , name, version, action, ...more] = request.url
    .split("?", 1)[0]!
    .split("/")
    .map(decoded);
  if (more.length > 0) throw refusals.resource();
  const query = new Parameters(request.query as JsonObject);
  switch (request.method) {
    case "GET":
      return name ? describe(registry, name, version, query) : list(registry, query);
    case "POST":
      return register(request, routes);
    case "PUT":
      if (!name) throw refusals.method();
      if (version !== undefined && action === "set-default") {
        return setDefault(registry, name, version);
      }
      return scale(routes, name, version, query);
    case "DELETE":
      if (!name) throw refusals.method();
      return unregister(routes, name, version);
    default:
      throw refusals.method();
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Parameters of a request, whose wrong numbers count as absent, as they do to TorchServe. */
class Parameters {
  readonly #given: JsonObject;

  constructor(given: JsonObject) {
    this.#given = given;
  }

  text(name: string): string | undefined {
    const value = this.#given[name];
    const one = Array.isArray(value) ? value[0] : value;
    return one === undefined || one === null ? undefined : String(one);
  }

  number<Default>(name: string, absent: Default): number | Default {
    const text = this.text(name);
    return text !== undefined && /^[+-]?\d{1,9}$/.test(text) ? Number(text) : absent;
  }

  /** A time; none of it counts as absent. */
  seconds(name: string): number | undefined {
    const given = this.number(name, 0);
    return given > 0 ? given : undefined;
  }

  /** Anything but `true` is false. */
  flag(name: string, absent: boolean): boolean {
    const text = this.text(name);
    return text === undefined ? absent : text.toLowerCase() === "true";
  }
}

function list(registry: Registry, query: Parameters): TorchReply {
  const given = query.number("limit", 100);
  const limit = given < 0 || given > 100 ? 100 : given;
  const from = Math.max(0, query.number("next_page_token", 0));
  const all = registry.defaults();
  const models = all.slice(from, from + limit);
  const next = from + limit;
  return jsonReply({
    ...(next < all.length && { nextPageToken: String(next) }),
    models: models.map(({ name, url }) => ({ modelName: name, modelUrl: url })),
  });
}

function describe(
  registry: Registry,
  name: string,
  version: string | undefined,
  query: Parameters,
): TorchReply {
  const found = version === "all" ? registry.versions(name) : [registry.find(name, version)];
  const isCustomized = query.flag("customized", false);
  const described = found.map((each) => ({
    ...versionBody(registry, each),
    ...(isCustomized && { customizedMetadata: {} }),
  }));
  const reply = jsonReply(described);
  // TorchServe asks a worker for it, whose replies have no reason phrase.
  return isCustomized ? { ...reply, reason: "" } : reply;
}

/** A version with the keys of TorchServe, in its order. */
function versionBody(registry: Registry, registration: Registration): JsonObject {
  const { name, version, url, runtime, served, settings, isLoadedAtStartup } = registration;
  const { queueSize } = registration;
  const { all: workers } = served.workers;
  const own = settings.deviceIds.map(String);
  const gpus = own.length > 0 ? own : [...new Set(workers.flatMap((worker) => worker.gpus))];
  const hasGpu = gpus.length > 0;
  const waiting = served.queue.waiting();
  return {
    ...{ modelName: name, modelVersion: version, modelUrl: url, runtime },
    minWorkers: settings.minWorkers,
    maxWorkers: settings.maxWorkers,
    batchSize: settings.batchSize,
    maxBatchDelay: settings.maxBatchDelay,
    responseTimeout: settings.responseTimeout,
    startupTimeout: settings.startupTimeout,
    ...{ maxRetryTimeoutInSec: 300, clientTimeoutInMills: 0 },
    ...{ parallelType: "", parallelLevel: 0, deviceType: hasGpu ? "gpu" : "cpu" },
    // A part of a GPU has a name and no number.
    ...(hasGpu && { deviceIds: gpus.filter((gpu) => /^\d+$/.test(gpu)).map(Number) }),
    ...{ continuousBatching: false, useJobTicket: false, useVenv: false, stateful: false },
    ...{ sequenceMaxIdleMSec: 0, sequenceTimeoutMSec: 0, maxNumSequence: 0 },
    ...{ maxSequenceJobQueueSize: 0, loadedAtStartup: isLoadedAtStartup },
    workers: workers.map((worker) => ({
      id: registry.workerId(worker),
      startTime: new Date(worker.startedMs).toISOString(),
      status: "READY",
      memoryUsage: 0,
      pid: pidOf(worker.engine.choices),
      gpu: worker.gpus.length > 0,
      gpuUsage: worker.gpus.length > 0 ? `gpuId::${worker.gpus.join(",")}` : "N/A",
    })),
    jobQueueStatus: {
      remainingCapacity: Math.max(0, queueSize - waiting),
      pendingRequests: waiting,
    },
  };
}

/** The process of a worker; 0 if it is within the server's own. */
function pidOf({ pid: own, pids }: NonNullable<Engine["choices"]> = {}): number {
  const pid = Array.isArray(pids) ? pids[0] : own;
  return typeof pid === "number" ? pid : 0;
}

async function register(request: FastifyRequest, routes: ManagementRoutes): Promise<TorchReply> {
  const { registry, store, logger } = routes;
  const query = new Parameters(registerParameters(request));
  const runtime = query.text("runtime");
  if (runtime !== undefined && !/^(python3?|node)$/i.test(runtime)) {
    throw refusals.badRequest(`Invalid RuntimeType value: ${runtime}`);
  }
  const url = query.text("url");
  if (!url) throw refusals.badRequest("Parameter url is required.");
  const batchSize = query.number("batch_size", undefined);
  const given = query.number("initial_workers", undefined);
  assertFewWorkers("initial_workers", given);
  const workers = given && Math.max(0, given);
  const registration = await store.open(url, {
    name: query.text("model_name"),
    runtime,
    handler: query.text("handler"),
    settings: {
      batchSize: batchSize !== undefined && batchSize < 0 ? 1 : batchSize,
      maxBatchDelay: query.number("max_batch_delay", undefined),
      responseTimeout: query.seconds("response_timeout"),
      startupTimeout: query.seconds("startup_timeout"),
      ...(workers !== undefined && { minWorkers: workers, maxWorkers: workers }),
    },
    isLoadedAtStartup: false,
  });
  registry.add(registration);
  const { name, version, settings } = registration;
  const count = settings.minWorkers;
  const titled = `Model "${name}" Version: ${version} registered with ${count} initial workers`;
  if (count === 0) {
    return status(`${titled}. Use scale workers API to add workers for the model.`);
  }
  const starting = registration.served.workers.scale(count).catch(async (error) => {
    // One that was unregistered meanwhile is unloaded already.
    if (registry.drop(registration)) await registry.unload(registration);
    logger.log("error", `${name} ${version} was not loaded`, { error: String(error) });
    const message = `Failed to start workers for model ${name} version: ${version}`;
    throw refusals.internal(500, `${message}: ${asSluiceError(error).message}`);
  });
  if (!query.flag("synchronous", true)) return inBackground(starting);
  await starting;
  return status(titled);
}

function assertFewWorkers(name: string, count = 0): void {
  if (count > mostWorkers) throw refusals.badRequest(`${name} cannot be more than ${mostWorkers}.`);
}

/** Parameters of the query, or of a body in JSON. */
function registerParameters(request: FastifyRequest): JsonObject {
  const text = typeof request.body === "string" ? request.body.trim() : "";
  const isForm = /form/.test(request.headers["content-type"] ?? "");
  if (text === "" || (isForm && !text.startsWith("{"))) return request.query as JsonObject;
  try {
    const value = JSON.parse(text) as Json;
    assertShallow(value);
    if (isJsonObject(value)) return { ...(request.query as JsonObject), ...value };
  } catch (error) {
    throw new Refusal(500, "JsonSyntaxException", (error as Error).message);
  }
  throw new Refusal(500, "JsonSyntaxException", "the body must be a JSON object");
}

async function scale(
  { registry, logger }: ManagementRoutes,
  name: string,
  version: string | undefined,
  query: Parameters,
): Promise<TorchReply> {
  const minWorkers = Math.max(0, query.number("min_worker", 1));
  const maxWorkers = query.number("max_worker", minWorkers);
  if (maxWorkers < minWorkers) {
    throw refusals.badRequest("max_worker cannot be less than min_worker.");
  }
  assertFewWorkers("min_worker", minWorkers);
  const registration = registry.find(name, version);
  const { workers } = registration.served;
  for (const each of registry.sharing(registration)) {
    each.settings = { ...each.settings, minWorkers, maxWorkers };
  }
  const scaled = workers.scale(minWorkers, maxWorkers).catch((error) => {
    logger.log("error", `${name} was not scaled`, { error: String(error) });
    const message = `Failed to start workers for model ${name} version: ${registration.version}`;
    throw refusals.internal(500, `${message}: ${asSluiceError(error).message}`);
  });
  if (!query.flag("synchronous", false)) return inBackground(scaled);
  await scaled;
  const named = version === undefined ? "" : `, version: ${version}`;
  return status(`Workers scaled to ${minWorkers} for model: ${name}${named}`);
}

/** The failure of work that nobody waits for is in the log. */
function inBackground(work: Promise<void>): TorchReply {
  work.catch(() => {});
  return status("Processing worker updates...", 202);
}

function setDefault(registry: Registry, name: string, version: string): TorchReply {
  registry.setDefault(name, version);
  return status(`Default version successfully updated for model "${name}" to "${version}"`);
}

async function unregister(
  { registry, logger }: ManagementRoutes,
  name: string,
  version: string | undefined,
): Promise<TorchReply> {
  const removed = registry.remove(name, version);
  // Calls in work are answered first, which may take long.
  registry.unload(removed).catch((error) => {
    logger.log("error", `${name} was not unloaded`, { error: String(error) });
  });
  return status(`Model "${name}" unregistered`);
}

const status = (text: string, code = 200): TorchReply => jsonReply({ status: text }, code);
