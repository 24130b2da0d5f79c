import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { maxWaitMsOf } from "../listener.ts";
import type { Models } from "../models.ts";
import type { Asked, Call, ServedModel } from "../served-model.ts";
import { errorBody, writeFailure, wrong } from "./failure.ts";

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
  const { caller, gone: signal, trace, shut } = request;
  // A row of a batch waits until its worker is stopped.
  const isRow = caller.priority === "batch";
  return { caller, signal, trace, shut, maxWaitMs: isRow ? Infinity : maxWaitMsOf(request) };
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

interface StreamOptions {
  /** A last event tells the tokens. */
  includeUsage: boolean;
  isChat: boolean;
  /** Members of each event that name the call. */
  own: JsonObject;
  reply: FastifyReply;
}

/**
 * Sends an answer as server-sent events while it is made. Until its first piece, an error is an
 * ordinary reply; later it is an event, and the stream ends without `[DONE]`.
 */
async function streamAnswer(
  model: ServedModel,
  asked: Asked,
  call: Call,
  { includeUsage, isChat, own, reply }: StreamOptions,
): Promise<void> {
  const head = {
    ...own,
    object: isChat ? "chat.completion.chunk" : "text_completion",
    model: model.name,
  };
  const events = new Events(reply);
  const send = (choices: JsonObject[], more: JsonObject = {}) =>
    events.send({ ...head, choices, ...(includeUsage && { usage: null }), ...more });
  const begun = new Set<number>();
  const begin = (index: number) => {
    if (begun.has(index)) return;
    begun.add(index);
    if (isChat) send([chatChoice(index, { role: "assistant", content: "" })]);
  };
  const piece = (index: number, text: string) => {
    begin(index);
    send([isChat ? chatChoice(index, { content: text }) : textChoice(index, text)]);
  };
  try {
    const onDelta = ({ choice, text }: { choice: number; text: string }) => piece(choice, text);
    const responses = await model.ask(asked, { ...call, onDelta });
    const { choices, usage } = asked.bodyOf(responses) as unknown as Completed;
    for (const choice of choices) {
      begin(choice.index);
      const calls = isChat ? callsOf(choice) : [];
      // Before the end, as OpenAI does: some clients read nothing after it.
      if (calls.length > 0) send([chatChoice(choice.index, { tool_calls: calls })]);
      send([lastChoice(choice, isChat)]);
    }
    if (includeUsage) send([], { usage });
    events.end();
  } catch (thrown) {
    if (!events.hasBegun) return writeFailure(asSluiceError(thrown), reply);
    events.send(errorBody(asSluiceError(thrown)));
    reply.raw.end();
  }
}

interface Completed {
  choices: (JsonObject & { index: number; finish_reason: string; message?: JsonObject })[];
  usage: JsonObject;
}

function chatChoice(index: number, delta: JsonObject): JsonObject {
  return { index, delta, logprobs: null, finish_reason: null };
}

function textChoice(index: number, text: string): JsonObject {
  return { index, text, logprobs: null, finish_reason: null };
}

function callsOf({ message }: Completed["choices"][number]): JsonObject[] {
  const calls = (message?.tool_calls ?? []) as JsonObject[];
  return calls.map((call, at) => ({ index: at, ...call }));
}

/** The end of an answer, with its log probabilities, which are known only then. */
function lastChoice(choice: Completed["choices"][number], isChat: boolean): JsonObject {
  const { index, finish_reason, logprobs = null } = choice;
  if (!isChat) return { index, text: "", logprobs, finish_reason };
  return { index, delta: {}, logprobs, finish_reason };
}

/** Server-sent events on a reply, which begins with the first one. */
class Events {
  readonly #reply: FastifyReply;
  hasBegun = false;

  constructor(reply: FastifyReply) {
    this.#reply = reply;
  }

  send(event: JsonObject): void {
    this.#write(`data: ${JSON.stringify(event)}\n\n`);
  }

  end(): void {
    this.#write("data: [DONE]\n\n");
    this.#reply.raw.end();
  }

  #write(text: string): void {
    const { raw } = this.#reply;
    if (!this.hasBegun) {
      this.hasBegun = true;
      this.#reply.hijack();
      raw.writeHead(200, {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache",
        "x-request-id": this.#reply.request.id,
        // A proxy such as nginx would hold the events back otherwise.
        "x-accel-buffering": "no",
      });
    }
    if (!raw.destroyed) raw.write(text);
  }
}
