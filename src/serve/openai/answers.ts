import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { maxWaitMsOf } from "../listener.ts";
import type { Models } from "../models.ts";
import type { Call, ServedModel } from "../served-model.ts";
import { wrong } from "./failure.ts";
import { streamAnswer } from "./stream.ts";

const embeddingsUrl = "/v1/embeddings";

export interface AnswerRoutes {
  models: Models;
  clock: Clock;
}

/** `GET /v1/models`, chat completions, completions and embeddings. */
export function answerRoutes(server: FastifyInstance, routes: AnswerRoutes): void {
  const { models } = routes;
  server.get("/v1/models", async () => ({ object: "list", data: models.all().map(modelBody) }));
  server.get<{ Params: { "*": string } }>("/v1/models/*", async (request) =>
    modelBody(models.named(request.params["*"])),
  );
  for (const url of ["/v1/chat/completions", "/v1/completions", embeddingsUrl]) {
    server.post(url, (request, reply) => answer(url, request, reply, routes));
  }
}

function modelBody({ name, created }: ServedModel): JsonObject {
  return { id: name, object: "model", created, owned_by: "sluice" };
}

async function answer(
  url: string,
  request: FastifyRequest,
  reply: FastifyReply,
  routes: AnswerRoutes,
): Promise<unknown> {
  const body = bodyOf(request);
  const model = routes.models.named(modelNameOf(body));
  const { wire, rest } = url === embeddingsUrl ? vectorOptions(body) : streamOptions(body);
  const asked = model.read(url, rest);
  const call = callOf(request);
  const own = identity(url, request.id, routes.clock);
  if (wire.stream) {
    const { includeUsage } = wire;
    const isChat = url === "/v1/chat/completions";
    await streamAnswer(model, asked, call, { includeUsage, isChat, own, reply });
    return reply;
  }
  const given = asked.bodyOf(await model.ask(asked, call));
  return { ...own, ...(wire.base64 ? inBase64(given) : given) };
}

/** What of a body belongs to the wire, and not to the request to the model. */
interface WireOptions {
  stream: boolean;
  includeUsage: boolean;
  /** Vectors come as base64 of 32-bit floats, as clients ask unless told otherwise. */
  base64: boolean;
}

const whole: WireOptions = { stream: false, includeUsage: false, base64: false };

interface SplitBody {
  wire: WireOptions;
  rest: JsonObject;
}

function streamOptions(body: JsonObject): SplitBody {
  const { stream = null, stream_options: options = null } = body;
  if (stream !== null && typeof stream !== "boolean") throw wrong("stream", "true or false");
  if (options !== null && !isJsonObject(options)) throw wrong("stream_options", "an object");
  // As a field of a row, only `stream: true` would be refused.
  if (stream !== true) return { wire: whole, rest: body };
  const { stream: _, ...rest } = body;
  const includeUsage = options?.include_usage === true;
  return { wire: { stream, includeUsage, base64: false }, rest };
}

function vectorOptions(body: JsonObject): SplitBody {
  const { encoding_format: format = null, ...rest } = body;
  if (format !== null && format !== "float" && format !== "base64") {
    throw wrong("encoding_format", "float or base64");
  }
  return { wire: { stream: false, includeUsage: false, base64: format === "base64" }, rest };
}

function bodyOf({ body }: FastifyRequest): JsonObject {
  if (isJsonObject(body as Json)) return body as JsonObject;
  throw new SluiceError("REQUEST_INVALID", "the body must be a JSON object");
}

function modelNameOf({ model }: JsonObject): string {
  if (model === undefined || model === null) {
    throw new SluiceError("PARAMETER_MISSING", "", { field: "model" });
  }
  if (typeof model !== "string") throw wrong("model", "a text");
  return model;
}

/** What a request says of how it is answered. */
export function callOf(request: FastifyRequest): Call {
  const { caller, gone: signal, trace } = request;
  // A row of a batch waits until its worker is stopped.
  const isRow = caller.priority === "batch";
  return { caller, signal, trace, maxWaitMs: isRow ? Infinity : maxWaitMsOf(request) };
}

const idPrefixes: Readonly<Record<string, string>> = {
  "/v1/chat/completions": "chatcmpl-",
  "/v1/completions": "cmpl-",
};

function identity(url: string, requestId: string, clock: Clock): JsonObject {
  const prefix = idPrefixes[url];
  if (prefix === undefined) return {};
  return { id: prefix + requestId, created: Math.floor(clock.now() / 1000) };
}

function inBase64(body: JsonObject): JsonObject {
  const data = (body.data as JsonObject[]).map((each) => ({
    ...each,
    embedding: Buffer.from(Float32Array.from(each.embedding as number[]).buffer).toString("base64"),
  }));
  return { ...body, data };
}
