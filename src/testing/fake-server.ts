import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, sleep, systemClock } from "../foundation/clock.ts";
import { isJsonObject, type Json, type JsonObject } from "../foundation/json.ts";
import { mix32 } from "../foundation/random.ts";

/** A request as the stand-in server got it. */
export interface ReceivedRequest {
  method: string;
  /** Path with query. */
  path: string;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: string;
  /** The body as JSON; undefined if it is not a JSON object. */
  json: JsonObject | undefined;
  /** Place of this request among all, from 0. */
  number: number;
  /** How many requests with the same body came before; 0 without `countBodies`. */
  earlier: number;
}

/** What the server does with one request. */
export type ServerBehaviour =
  | {
      kind: "answer";
      /** Cut to as many words as the request allows tokens. Default: words that follow from it. */
      text?: string;
      finishReason?: string;
      /** Calls of tools in place of text, in chats. */
      toolCalls?: JsonObject[];
      /** Default: true. False leaves `usage` out. */
      usage?: boolean;
      cachedTokens?: number;
      /** Of a stream: time between two words; default 0. */
      wordDelayMs?: number;
    }
  | {
      kind: "status";
      status: number;
      headers?: Record<string, string>;
      /** An object is sent as JSON. Default: an error object. */
      body?: string | JsonObject;
    }
  /** Never replies. */
  | { kind: "hang" }
  /** Breaks the connection: before any byte, or in the middle of a reply. */
  | { kind: "reset"; when: "before-reply" | "in-reply" }
  /** A complete reply whose JSON ends half way. */
  | { kind: "half-body" }
  | { kind: "malformed-json" }
  /** A page of HTML with status 200, as a wrong proxy gives. */
  | { kind: "html" }
  | { kind: "empty-choices" }
  /** A 200 with this JSON in place of the answer. */
  | { kind: "json"; body: Json };

export interface FakeServerOptions {
  /** Time each answer takes; default 0. */
  delayMs?: number;
  /** Default 0: any free port. */
  port?: number;
  /**
   * Chosen for each request; undefined, or no function: it is answered. What it throws is answered
   * with status 500.
   */
  behave?: (request: ReceivedRequest) => ServerBehaviour | undefined;
  /** Count requests by body; default true. Costs memory in long benchmarks. */
  countBodies?: boolean;
  clock?: Clock;
}

/** A running stand-in for an OpenAI-compatible server. */
export interface FakeServer {
  readonly port: number;
  /** `http://127.0.0.1:PORT/v1`. */
  readonly baseUrl: string;
  /** Requests so far. */
  readonly received: number;
  /** Requests that are being held now. */
  readonly held: number;
  /** Most requests that were held at once. */
  readonly mostHeld: number;
  /** Requests so far by body. */
  readonly countsByBody: ReadonlyMap<string, number>;
  /** Breaks all connections and stops listening. */
  close(): Promise<void>;
}

/**
 * Starts a stand-in for an OpenAI-compatible server on 127.0.0.1, for tests and benchmarks:
 * `POST …/chat/completions`, `…/completions`, `…/embeddings`, `…/audio/transcriptions` and
 * `…/audio/translations` with answers and usage that follow from the request, and any fault that
 * `behave` names. An answer to a request with `stream: true` comes as events, word by word.
 *
 * @example
 * const server = await startFakeServer({
 *   behave: ({ earlier }) => (earlier === 0 ? { kind: "status", status: 500 } : undefined),
 * });
 * await server.close();
 */
export async function startFakeServer(options: FakeServerOptions = {}): Promise<FakeServer> {
  const { delayMs = 0, clock = systemClock, countBodies = true, behave } = options;
  const counts = new Map<string, number>();
  const tally = { received: 0, held: 0, mostHeld: 0 };

  const serve = async (incoming: IncomingMessage, response: ServerResponse) => {
    response.on("close", () => tally.held--);
    tally.mostHeld = Math.max(tally.mostHeld, ++tally.held);
    const body = await textOf(incoming);
    const earlier = counts.get(body) ?? 0;
    if (countBodies) counts.set(body, earlier + 1);
    const request = received(incoming, body, tally.received++, earlier);
    const behaviour = chosen(request, behave);
    const reply = () => void respond(behaviour, request, response, clock);
    if (delayMs > 0) clock.schedule(delayMs, reply);
    else reply();
  };
  const server = createServer((incoming, response) => {
    serve(incoming, response).catch(() => response.destroy());
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port ?? 0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    baseUrl: `http://127.0.0.1:${port}/v1`,
    get received() {
      return tally.received;
    },
    get held() {
      return tally.held;
    },
    get mostHeld() {
      return tally.mostHeld;
    },
    countsByBody: counts,
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

function textOf(incoming: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    incoming.setEncoding("utf8");
    incoming.on("data", (chunk: string) => {
      text += chunk;
    });
    incoming.on("end", () => resolve(text));
    incoming.on("error", reject);
  });
}

function received(
  incoming: IncomingMessage,
  body: string,
  number: number,
  earlier: number,
): ReceivedRequest {
  let json: JsonObject | undefined;
  try {
    const parsed = JSON.parse(body) as Json;
    if (isJsonObject(parsed)) json = parsed;
  } catch {
    // `json` stays undefined, and the request is refused below.
  }
  const { method = "", url: path = "", headers } = incoming;
  return { method, path, headers, body, json, number, earlier };
}

/** A fault of a test's own function must show in what it tests. */
function chosen(request: ReceivedRequest, behave: FakeServerOptions["behave"]): ServerBehaviour {
  try {
    return behave?.(request) ?? routed(request);
  } catch (thrown) {
    const message = `behave threw ${thrown instanceof Error ? thrown : JSON.stringify(thrown)}`;
    return { kind: "status", status: 500, body: { error: { message } } };
  }
}

function routed({ method, path, json }: ReceivedRequest): ServerBehaviour {
  const known = /\/(completions|embeddings|audio\/(?:transcriptions|translations))(\?|$)/.exec(
    path,
  )?.[1];
  if (method !== "POST" || known === undefined) {
    return { kind: "status", status: 404, body: { detail: "Not Found" } };
  }
  const isRead = json !== undefined || known.startsWith("audio");
  return isRead ? { kind: "answer" } : { kind: "status", status: 400 };
}

function respond(
  behaviour: ServerBehaviour,
  request: ReceivedRequest,
  response: ServerResponse,
  clock: Clock,
): void | Promise<void> {
  const isStream = request.json?.stream === true;
  switch (behaviour.kind) {
    case "answer":
      if (isStream) return sendEvents(response, request, behaviour, clock);
      return sendJson(response, answerBody(request, behaviour));
    case "status":
      return sendStatus(response, behaviour);
    case "hang":
      return;
    case "reset":
      if (behaviour.when === "before-reply") return void response.socket?.resetAndDestroy();
      if (isStream) {
        const [first = ""] = eventsOf(answerBody(request, { kind: "answer" }), request.json!);
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(first, () => response.socket?.resetAndDestroy());
        return;
      }
      response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
      response.write('{"choices":[', () => response.socket?.resetAndDestroy());
      return;
    case "half-body": {
      const whole = JSON.stringify(answerBody(request, { kind: "answer" }));
      return send(response, 200, "application/json", whole.slice(0, whole.length / 2));
    }
    case "malformed-json":
      return send(response, 200, "application/json", "{choices: [}");
    case "html":
      return send(response, 200, "text/html", "<html><body>Sign in</body></html>");
    case "empty-choices":
      return sendJson(response, { object: "chat.completion", choices: [] });
    case "json":
      return sendJson(response, behaviour.body);
  }
}

async function sendEvents(
  response: ServerResponse,
  request: ReceivedRequest,
  answer: ServerBehaviour & { kind: "answer" },
  clock: Clock,
): Promise<void> {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const event of eventsOf(answerBody(request, answer), request.json!)) {
    if (response.destroyed) return;
    response.write(event);
    if (answer.wordDelayMs) await sleep(clock, answer.wordDelayMs);
  }
  response.end();
}

/** A whole answer as the events of a stream: the first word of each choice, then the second. */
function eventsOf(body: Json, { stream_options: options }: JsonObject): string[] {
  const { choices, usage = null, ...common } = body as JsonObject & { choices: JsonObject[] };
  const isChat = common.object === "chat.completion";
  const event = (rest: JsonObject) => `data: ${JSON.stringify({ ...common, ...rest })}\n\n`;
  const pieces = choices.map(({ index = 0, message, text, finish_reason: end = null }) => {
    const { content = text ?? null, tool_calls: calls } = (message ?? {}) as JsonObject;
    if (Array.isArray(calls)) return [...callPieces(index, calls as JsonObject[])];
    const whole = String(content);
    const words = whole.match(/\s*\S+|\s+$/g) ?? [];
    const piece = (word: string, reason: Json): JsonObject => ({
      index,
      ...(isChat ? { delta: { content: word } } : { text: word }),
      finish_reason: reason,
    });
    return [...words.map((word) => piece(word, null)), piece("", end)];
  });
  const rounds = Math.max(...pieces.map(({ length }) => length));
  const inTurn = Array.from({ length: rounds }, (_, at) => pieces.flatMap((own) => own[at] ?? []));
  const wantsUsage =
    isJsonObject(options ?? null) && (options as JsonObject).include_usage === true;
  return [
    ...inTurn.flat().map((piece) => event({ choices: [piece] })),
    ...(wantsUsage && usage !== null ? [event({ choices: [], usage })] : []),
    "data: [DONE]\n\n",
  ];
}

/** Calls as servers stream them: the name, then the arguments, letter by letter here. */
function* callPieces(index: Json, calls: readonly JsonObject[]): Generator<JsonObject> {
  const piece = (delta: JsonObject, reason: Json): JsonObject => ({
    ...{ index, delta, finish_reason: reason },
  });
  for (const [at, { function: called, ...call }] of calls.entries()) {
    const { name = null, arguments: given } = called as JsonObject;
    const start = { index: at, ...call, function: { name, arguments: "" } };
    yield piece({ tool_calls: [start] }, null);
    for (const letter of String(given)) {
      yield piece({ tool_calls: [{ index: at, function: { arguments: letter } }] }, null);
    }
  }
  yield piece({}, "tool_calls");
}

function sendStatus(
  response: ServerResponse,
  behaviour: ServerBehaviour & { kind: "status" },
): void {
  const { status, headers = {} } = behaviour;
  const body = behaviour.body ?? { error: { message: `a fault of status ${status}` } };
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  if (typeof body === "string") send(response, status, "text/plain", body);
  else send(response, status, "application/json", JSON.stringify(body));
}

function sendJson(response: ServerResponse, body: Json): void {
  send(response, 200, "application/json", JSON.stringify(body));
}

function send(response: ServerResponse, status: number, type: string, text: string): void {
  response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(text) });
  response.end(text);
}

const words = ["north", "east", "south", "west", "above", "below", "near", "far"];

function answerBody(request: ReceivedRequest, answer: ServerBehaviour & { kind: "answer" }): Json {
  const json = request.json ?? {};
  if (request.path.includes("/embeddings")) return vectorsBody(json);
  if (request.path.includes("/audio/")) return transcriptBody(request, answer);
  const isChat = request.path.includes("/chat/");
  const limit = Number(json.max_completion_tokens ?? json.max_tokens ?? Infinity);
  let completionTokens = 0;
  const choices = Array.from({ length: Number(json.n ?? 1) }, (_, index): JsonObject => {
    const spoken = answer.text?.split(" ") ?? wordsFor(unstreamed(request), index);
    const kept = spoken.slice(0, limit);
    completionTokens += kept.length;
    const text = kept.join(" ");
    const finish = answer.finishReason ?? (kept.length < spoken.length ? "length" : "stop");
    if (answer.toolCalls) {
      const message = { role: "assistant", content: null, tool_calls: answer.toolCalls };
      return { index, message, finish_reason: "tool_calls" };
    }
    return isChat
      ? { index, message: { role: "assistant", content: text }, finish_reason: finish }
      : { index, text, finish_reason: finish };
  });
  const promptTokens = promptWords(json);
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: answer.cachedTokens ?? 0 },
  };
  const body: JsonObject = {
    id: `fake-${request.number}`,
    object: isChat ? "chat.completion" : "text_completion",
    created: 0,
    model: json.model ?? null,
    choices,
  };
  return answer.usage === false ? body : { ...body, usage };
}

/** The body as it would be without streaming, so that the answer is the same. */
function unstreamed({ body, json }: ReceivedRequest): string {
  if (json?.stream !== true) return body;
  const { stream: _, stream_options: _options, ...rest } = json;
  return JSON.stringify(rest);
}

/** The words of the file, each of which takes half a second where times are asked for. */
function transcriptBody({ path, body }: ReceivedRequest, answer: { text?: string }): Json {
  const text = answer.text ?? `heard ${fileOf(body)}`;
  if (!body.includes("\r\n\r\nverbose_json\r\n")) return { text };
  const asksFor = (times: string) => body.includes(`\r\n\r\n${times}\r\n`);
  const words = text.split(" ").map((word, at) => ({ word, start: at / 2, end: (at + 1) / 2 }));
  const duration = words.length / 2;
  const segment = { id: 0, seek: 0, start: 0, end: duration, text: ` ${text}`, tokens: [1] };
  return {
    task: path.includes("/translations") ? "translate" : "transcribe",
    ...{ language: "english", duration, text },
    ...((asksFor("segment") || !asksFor("word")) && { segments: [segment] }),
    ...(asksFor("word") && { words }),
  };
}

/** What a form has as its file. */
function fileOf(form: string): string {
  const part = form.slice(form.indexOf('name="file"'));
  const start = part.indexOf("\r\n\r\n") + 4;
  return part.slice(start, part.indexOf("\r\n--", start));
}

/** Vectors that follow from their texts, in the order of the texts. */
function vectorsBody({ input, model = null }: JsonObject): Json {
  const texts = (Array.isArray(input) ? input : [input ?? ""]).map(String);
  const data = texts.map((text, index) => ({
    object: "embedding",
    index,
    embedding: fakeVector(text),
  }));
  const words = texts.reduce((sum, text) => sum + text.split(/\s+/).filter(Boolean).length, 0);
  const usage = { prompt_tokens: words, total_tokens: words };
  return { object: "list", model, data, usage };
}

/** The vector that the stand-in server gives for a text. */
export function fakeVector(text: string): number[] {
  return [0, 1, 2, 3].map((place) => (mix32(hashOf(text, place)) % 2000) / 1000 - 1);
}

/** Three to ten words that follow from the request's body, and from which of `n` answers it is. */
function wordsFor(body: string, index: number): string[] {
  const hash = hashOf(body, index);
  const count = 3 + (mix32(hash) % 8);
  return Array.from({ length: count }, (_, place) => words[mix32(hash + place) % words.length]!);
}

function hashOf(text: string, start: number): number {
  let hash = start;
  for (let position = 0; position < text.length; position++) {
    hash = Math.imul(hash ^ text.charCodeAt(position), 0x01000193);
  }
  return hash;
}

function promptWords({ messages, prompt }: JsonObject): number {
  const texts = Array.isArray(messages)
    ? messages.map((message) => (isJsonObject(message) ? String(message.content) : ""))
    : [String(prompt ?? "")];
  return texts.reduce((sum, text) => sum + text.split(/\s+/).filter(Boolean).length, 0);
}
