import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { replyOf, requestRow } from "../../engines/handler-rows.ts";
import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import type { Answer } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import type { Logger } from "../../foundation/logger.ts";
import { wireTable } from "../../foundation/wire-table.ts";
import { maxWaitMsOf, namedError } from "../listener.ts";
import type { Call } from "../served-model.ts";
import { addressDescription, modelDescription } from "./api-description.ts";
import type { TorchServeMetrics } from "./metrics.ts";
import type { Registration, Registry } from "./registry.ts";
import {
  jsonReply,
  pythonJson,
  Refusal,
  refusalOf,
  refusals,
  send,
  sendFailure,
  type TorchReply,
} from "./replies.ts";
import { handlerRow, headersOf, type RequestBody, readBody, rowOf } from "./request-row.ts";

/** A path whose bodies name the model that answers them. */
export interface BodyRoute {
  path: string;
  /** Such as `{body.tgt_lang}`. */
  model: string;
}

export interface PredictionRoutes {
  registry: Registry;
  routes: readonly BodyRoute[];
  metrics: TorchServeMetrics;
  clock: Clock;
  logger: Logger;
  /** Whether the models of the start are loaded. */
  isReady(): boolean;
}

type Params = { model: string; version?: string; "*"?: string };

/** The ways to ask a model, beside those with an action behind a colon. */
const modelPaths = [
  "/predictions/:model",
  "/predictions/:model/:version",
  "/predictions/:model/:version/*",
  "/explanations/:model",
  "/explanations/:model/:version",
  "/v2/models/:model/infer",
  "/v2/models/:model/explain",
  "/models/:model/invoke",
  "/:model/predict",
  "/:model/:version/predict",
];

/**
 * The inference address of TorchServe: health, predictions and explanations under each of its
 * paths, and the paths of the server's file that send a body to the model that it names.
 */
export function predictionRoutes(
  server: FastifyInstance,
  { registry, routes, metrics, clock, logger, isReady }: PredictionRoutes,
): void {
  const askModel = async (
    registration: Registration,
    request: FastifyRequest,
    asking: Omit<Asking, "onTurn" | "logger">,
  ) => {
    if (request.method === "OPTIONS") return jsonReply(modelDescription(registration));
    const { version } = request.params as Partial<Params>;
    const labels = { model: registration.name, version };
    metrics.asked(labels);
    const begunMs = clock.monotonic();
    let turnMs = begunMs;
    const onTurn = (waitMs: number) => {
      turnMs = clock.monotonic();
      metrics.admitted(labels, waitMs);
    };
    const answer = await predicted(registration, request, { ...asking, onTurn, logger });
    const endMs = clock.monotonic();
    metrics.answered(labels, endMs - begunMs, endMs - turnMs);
    return answer;
  };
  // Of every type, and also without one.
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => {
    done(null, body);
  });
  server.setErrorHandler((error, request, reply) => {
    if (!reply.raw.headersSent) sendFailure(namedError(error), reply, request);
  });
  const on = (url: string, answer: (request: FastifyRequest) => Promise<TorchReply>) => {
    server.all(url, async (request, reply) => answered(request, reply, answer));
  };
  on("/ping", async () =>
    isReady() && isHealthy(registry)
      ? jsonReply({ status: "Healthy" })
      : jsonReply({ status: "Unhealthy" }, 500),
  );
  for (const path of modelPaths) {
    on(path, async (request) => {
      const { model, version, "*": rest } = request.params as Params;
      const isExplained = /^\/explanations\/|\/explain$/.test(path);
      return askModel(registry.find(model, version), request, { isExplained, urlPath: rest });
    });
  }
  server.post("/v1/models/*", async (request, reply) =>
    answered(request, reply, async () => {
      const path = (request.params as Params)["*"]!;
      const [, name, action] = /^([^/]+):(predict|explain)$/.exec(path) ?? [];
      if (name === undefined) throw refusals.resource();
      return askModel(registry.find(name), request, { isExplained: action === "explain" });
    }),
  );
  on("/invocations", async (request) => askModel(onlyModel(registry, request), request, {}));
  for (const { path, model } of routes) {
    server.post(path, async (request, reply) =>
      answered(request, reply, async () => {
        const body = await readBody(request);
        const name = filled(model, rowOf(body));
        return askModel(registry.find(name), request, { body });
      }),
    );
  }
}

/** The routes that need no token: what there is to call. */
export function descriptionRoutes(server: FastifyInstance, isManagement: boolean): void {
  const describe = async (request: FastifyRequest, reply: FastifyReply) =>
    answered(request, reply, async () => jsonReply(addressDescription(isManagement)));
  server.get("/api-description", describe);
  server.options("/", describe);
}

/** Answers a request by a reply of the wire, whatever happens. */
export async function answered(
  request: FastifyRequest,
  reply: FastifyReply,
  answer: (request: FastifyRequest) => Promise<TorchReply>,
): Promise<FastifyReply> {
  try {
    send(request, reply, await answer(request));
  } catch (thrown) {
    sendFailure(thrown instanceof Refusal ? thrown : asSluiceError(thrown), reply, request);
  }
  return reply;
}

/** Each default version has as many workers as it must have. */
function isHealthy(registry: Registry): boolean {
  return registry
    .defaults()
    .every(({ served, settings }) => served.workers.all.length >= settings.minWorkers);
}

function onlyModel(registry: Registry, request: FastifyRequest): Registration {
  const { model_name: name } = request.query as { model_name?: string };
  if (name !== undefined) return registry.find(name);
  const [only, ...others] = registry.defaults();
  if (only === undefined || others.length > 0) {
    throw refusals.badRequest("Parameter model_name is required.");
  }
  return only;
}

/** A template with its parts in braces filled from the body. */
function filled(template: string, row: JsonObject): string {
  return template.replaceAll(/\{body\.([^{}]+)\}/g, (_whole, path: string) => {
    const value = path
      .split(".")
      .reduce<Json | undefined>(
        (at, key) => (isJsonObject(at) && Object.hasOwn(at, key) ? at[key] : undefined),
        row,
      );
    if (typeof value === "string" || typeof value === "number") return String(value);
    throw refusals.badRequest(`Parameter ${path} is required.`);
  });
}

interface Asking {
  isExplained?: boolean;
  /** The rest of the path behind the version, for the handler. */
  urlPath?: string | undefined;
  /** The body, if it has been read. */
  body?: RequestBody;
  onTurn: NonNullable<Call["onTurn"]>;
  /** Gets the reasons that the wire has other words for. */
  logger: Logger;
}

async function predicted(
  registration: Registration,
  request: FastifyRequest,
  { isExplained = false, urlPath, body: read, onTurn, logger }: Asking,
): Promise<TorchReply> {
  const { name, served, fields, handler } = registration;
  const body = read ?? (await readBody(request));
  if (!served.workers.isThere) throw refusals.noWorker(name);
  const { caller, gone: signal, trace } = request;
  const call = { caller, signal, trace, onTurn, maxWaitMs: maxWaitMsOf(request) };
  try {
    if (handler !== undefined) {
      const explain = ["explain", isExplained ? "True" : "False"] as const;
      const path = urlPath === undefined ? [] : [["url_path", urlPath] as const];
      const headers = headersOf(request, [explain, ...path]);
      // The row has the id and the headers besides.
      const about = (body: Json) => ({ ...call, content: [body, isExplained, urlPath ?? null] });
      if (handler === "python") {
        const row = handlerRow(body, request.id, headers);
        return handlerReply(await served.askRow(row, about(row.input!)));
      }
      const row = { ...rowOf(body), ...fields };
      const asked = requestRow(row, { id: request.id, headers });
      return nodeReply(await served.askRow(asked, about(row)));
    }
    if (!served.takesRows) return await wordsReply(registration, rowOf(body), call);
    return valueReply(await served.askRow({ ...rowOf(body), ...fields }, call));
  } catch (thrown) {
    if (thrown instanceof Refusal) throw thrown;
    const error = asSluiceError(thrown);
    const hasOtherWords = wireTable[error.code]?.torchserve?.[2] !== undefined;
    if (hasOtherWords) logger.log("warn", `${name}: ${error.message}`);
    throw namedFailure(error, name);
  }
}

/** Full queues and missing workers have the same words on this wire. */
function namedFailure(error: SluiceError, model: string): unknown {
  const isFull = ["QUEUE_FULL", "DEADLINE_EXCEEDED", "WORKERS_MISSING"].includes(error.code);
  if (isFull) return refusals.noWorker(model);
  return error.code === "CLIENT_GONE" ? error : refusalOf(error);
}

/** A value as JSON and a text as it is, without a type. */
function valueReply({ value, text }: Answer): TorchReply {
  const body = value === undefined ? text : pythonJson(value);
  return { status: 200, reason: "", body };
}

/** The reply of a handler for Node: its result, with what it said of the reply. */
function nodeReply(answer: Answer): TorchReply {
  const said = replyOf(answer.value);
  if (said === undefined) return valueReply(answer);
  const { result, facts } = said;
  return { ...facts, body: typeof result === "string" ? result : pythonJson(result) };
}

/** The reply that a handler in Python wrote: see `python/sluice_handler.py`. */
function handlerReply({ value }: Answer): TorchReply {
  const { status, error, reason, contentType, headers, text, base64 } = value as {
    status: number;
    /** Why there is not an answer. */
    error?: string;
    reason: string;
    contentType?: string;
    headers?: [string, string][];
    text?: string;
    base64?: string;
  };
  if (error !== undefined) throw refusals.internal(status, error);
  const body = text ?? Buffer.from(base64 ?? "", "base64");
  return { status, reason, contentType, headers, body };
}

/** A model that reads words alone gets a chat or a text of OpenAI's, and gives its texts. */
async function wordsReply(
  { served, fields }: Registration,
  row: JsonObject,
  call: Call,
): Promise<TorchReply> {
  const { text, data = text, ...rest } = { ...row, ...fields };
  if (rest.messages === undefined && rest.prompt === undefined && typeof data !== "string") {
    const message = "the body must be a text, or have messages, prompt, text or data";
    throw new SluiceError("PARAMETER_MISSING", message);
  }
  const isChat = rest.messages !== undefined;
  const url = isChat ? "/v1/chat/completions" : "/v1/completions";
  const asked = served.read(url, isChat ? rest : { prompt: data!, ...rest });
  const answers = (await served.ask(asked, call)).flatMap((response) => response.answers);
  const several = answers.length > 1 && {
    value: answers.map(({ value, text: said }) => value ?? said),
  };
  return valueReply({ ...answers[0]!, ...several });
}
