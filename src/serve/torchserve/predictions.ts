import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { replyOf, requestRow } from "../../engines/handler-rows.ts";
import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import type { Answer } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import type { Logger } from "../../foundation/logger.ts";
import { wireTable } from "../../foundation/wire-table.ts";
import { assertShallow, maxWaitMsOf, namedError } from "../listener.ts";
import type { Call } from "../served-model.ts";
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
    const onTurn = (waitMs: number) => metrics.admitted(labels, waitMs);
    const answer = await predicted(registration, request, { ...asking, onTurn, logger });
    metrics.answered(labels, clock.monotonic() - begunMs);
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
      if (handler === "python") {
        const row = handlerRow(body, request.id, headers);
        return handlerReply(await served.askRow(row, call));
      }
      const row = requestRow({ ...rowOf(body), ...fields }, { id: request.id, headers });
      return nodeReply(await served.askRow(row, call));
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

/** A model that reads words alone gets a chat or a text of OpenAI's, and its answer's text. */
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
  const [response] = await served.ask(asked, call);
  return valueReply(response!.answers[0]!);
}

const error: JsonObject = {
  description: "An error",
  content: {
    "application/json": {
      schema: {
        type: "object",
        required: ["code", "type", "message"],
        properties: {
          code: { type: "integer" },
          type: { type: "string" },
          message: { type: "string" },
        },
      },
    },
  },
};

const body: JsonObject = { content: { "*/*": { schema: {} } } };

/** A call with its parameters; those in the path are in braces there. */
function call(operationId: string, path: string, query: readonly string[] = []): JsonObject {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => parameter(name!, "path"));
  return {
    operationId,
    parameters: [...inPath, ...query.map((name) => parameter(name, "query"))],
    responses: { 200: { description: "Done" }, default: error },
  };
}

const parameter = (name: string, place: "path" | "query"): JsonObject => ({
  name,
  in: place,
  required: place === "path",
  schema: { type: "string" },
});

function document(title: string, paths: JsonObject): JsonObject {
  return { openapi: "3.0.1", info: { title, version: "1" }, paths };
}

const prediction = "/predictions/{model_name}";
const version = "/{model_version}";
const model = "/models/{model_name}";

const workerKeys = ["min_worker", "max_worker", "synchronous"];

const registerKeys = [
  ...["url", "model_name", "batch_size", "max_batch_delay", "initial_workers"],
  ...["synchronous", "response_timeout", "startup_timeout"],
];

/** What may be called at an address, in the form of OpenAPI 3.0.1. */
function addressDescription(isManagement: boolean): JsonObject {
  if (!isManagement) {
    return document("Inference", {
      "/ping": { get: call("ping", "") },
      "/api-description": { get: call("apiDescription", "") },
      [prediction]: { post: { ...call("predict", prediction), requestBody: body } },
      [prediction + version]: {
        post: { ...call("predictByVersion", prediction + version), requestBody: body },
      },
    });
  }
  return document("Management", {
    "/api-description": { get: call("apiDescription", "") },
    "/models": {
      get: call("listModels", "", ["limit", "next_page_token"]),
      post: call("registerModel", "", registerKeys),
    },
    [model]: {
      get: call("describeModel", model, ["customized"]),
      put: call("scaleModel", model, workerKeys),
      delete: call("unregisterModel", model),
    },
    [model + version]: {
      get: call("describeVersion", model + version, ["customized"]),
      put: call("scaleVersion", model + version, workerKeys),
      delete: call("unregisterVersion", model + version),
    },
    [`${model}${version}/set-default`]: {
      put: call("setDefault", model + version),
    },
  });
}

/** What may be sent to one model. */
function modelDescription({ name, version: own }: Registration): JsonObject {
  const path = `/predictions/${name}`;
  return document(`${name} ${own}`, {
    [path]: { post: { ...call("predict", path), requestBody: body } },
  });
}

/** A value of a request: JSON, a text, or bytes. */
type BodyValue = Json | Uint8Array;

/** The body of a request: one value, or the fields of a form. */
type RequestBody =
  /** @param json the text that the value was read from. */
  { body: BodyValue; json?: string } | { fields: Record<string, BodyValue> };

/**
 * Reads a body: JSON where its type says so, or where it says nothing of the kind and the text is
 * an object or a list (`curl -d` calls everything a form); text; the fields of a form, the last one
 * of each name; anything else as bytes. Text that claims to be JSON and is not stays text.
 */
async function readBody(request: FastifyRequest): Promise<RequestBody> {
  const bytes = (request.body ?? new Uint8Array()) as Uint8Array;
  const type = request.headers["content-type"] ?? "";
  const kind = type.split(";", 1)[0]!.trim().toLowerCase();
  if (kind === "multipart/form-data") return { fields: await formFields(bytes, type) };
  if (kind === "application/json") return jsonBodyOf(textIn(bytes)) ?? { body: bytes };
  if (kind.startsWith("text/")) return { body: textIn(bytes) ?? bytes };
  const isForm = kind === "application/x-www-form-urlencoded";
  if (!isForm && kind !== "") return { body: bytes };
  const text = textIn(bytes);
  if (text === undefined) return { body: bytes };
  const read = /^\s*[[{]/.test(text) ? jsonBodyOf(text) : undefined;
  if (read?.json !== undefined) return read;
  if (isForm) return { fields: Object.fromEntries(new URLSearchParams(text)) };
  return { body: text };
}

/**
 * The row of a body, for a model that reads rows: an object or the fields of a form as they are, a
 * text as `text`, anything else as `data`, bytes in base64.
 */
function rowOf(body: RequestBody): JsonObject {
  if ("fields" in body) {
    const fields = Object.entries(body.fields);
    return Object.fromEntries(fields.map(([name, value]) => [name, withoutBytes(value)]));
  }
  const value = withoutBytes(body.body);
  if (isJsonObject(value)) return value;
  return typeof value === "string" && typeof body.body === "string"
    ? { text: value }
    : { data: value };
}

/** The headers of a request as they were sent, and those that the server adds for handlers. */
function headersOf(
  { raw: { rawHeaders } }: FastifyRequest,
  added: readonly (readonly [string, string])[],
): Record<string, string> {
  const sent = rawHeaders.flatMap((name, at) =>
    at % 2 === 0 ? [[name, rawHeaders[at + 1]!] as const] : [],
  );
  return Object.fromEntries([...sent, ...added]);
}

/** The row of a body for a handler in Python, with the headers that its context shows. */
function handlerRow(
  body: RequestBody,
  requestId: string,
  headers: Record<string, string>,
): JsonObject {
  const input = "fields" in body ? body.fields : { body: inText(body) };
  const names = Object.keys(input);
  const inBytes = names.filter((name) => input[name] instanceof Uint8Array);
  return {
    requestId,
    headers,
    input: Object.fromEntries(names.map((name) => [name, withoutBytes(input[name]!)])),
    bytes: inBytes,
    json: "json" in body && body.json !== undefined ? ["body"] : [],
  };
}

/** JSON as it was sent: Python knows numbers that JavaScript would round. */
const inText = ({ body, json }: { body: BodyValue; json?: string }) => json ?? body;

async function formFields(bytes: Uint8Array, type: string): Promise<Record<string, BodyValue>> {
  const whole = new Response(bytes as Uint8Array<ArrayBuffer>, {
    headers: { "content-type": type },
  });
  const form = await whole.formData().catch((cause) => {
    throw new SluiceError("REQUEST_INVALID", "the form is broken", { cause });
  });
  const fields: [string, BodyValue][] = [];
  for (const [name, value] of form) {
    fields.push([name, typeof value === "string" ? value : await fileValue(value)]);
  }
  return Object.fromEntries(fields);
}

async function fileValue(file: File): Promise<BodyValue> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (/json/.test(file.type)) return jsonBodyOf(textIn(bytes))?.body ?? bytes;
  return /^text\//.test(file.type) ? (textIn(bytes) ?? bytes) : bytes;
}

/** The value of a text in JSON; a text that is not JSON stays what it is. */
function jsonBodyOf(text: string | undefined): { body: BodyValue; json?: string } | undefined {
  if (text === undefined) return undefined;
  const value = parsed(text);
  if (value !== undefined) assertShallow(value);
  return value === undefined ? { body: text } : { body: value, json: text };
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** The text in UTF-8; undefined if it is not one. */
function textIn(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

const withoutBytes = (value: BodyValue): Json =>
  value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value;
