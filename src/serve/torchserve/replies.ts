import type { FastifyReply, FastifyRequest } from "fastify";
import { SluiceError } from "../../foundation/errors.ts";
import type { Json } from "../../foundation/json.ts";
import { wireTable } from "../../foundation/wire-table.ts";

export interface TorchReply {
  status: number;
  reason: string;
  /** Without a type, the reply has no such header. */
  contentType?: string | undefined;
  /** Headers that a handler set. */
  headers?: readonly (readonly [name: string, value: string])[] | undefined;
  body: string | Uint8Array;
}

/** A request that TorchServe's wire refuses, in its own words. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: number;
  readonly type: string;

  constructor(status: number, type: string, message: string) {
    super(message);
    this.status = status;
    this.type = type;
  }
}

export const refusals = Object.freeze({
  resource: () => refusalOf(new SluiceError("ROUTE_UNKNOWN")),
  method: () =>
    new Refusal(
      405,
      "MethodNotAllowedException",
      "Requested method is not allowed, please refer to API document.",
    ),
  badRequest: (message: string) => new Refusal(400, "BadRequestException", message),
  model: (name: string) => new Refusal(404, "ModelNotFoundException", `Model not found: ${name}`),
  version: (name: string, version: string) =>
    new Refusal(
      404,
      "ModelVersionNotFoundException",
      `Model version: ${version} does not exist for model: ${name}`,
    ),
  noWorker: (name: string) =>
    new Refusal(
      503,
      "ServiceUnavailableException",
      `Model "${name}" has no worker to serve inference request. Please use scale workers API to ` +
        "add workers. If this is a sequence inference, please check if it is closed, or expired; " +
        "or exceeds maxSequenceJobQueueSize",
    ),
  internal: (status: number, message: string) =>
    new Refusal(status, "InternalServerException", message),
});

/** JSON as the wire has it: indented by two, with a line break at the end. */
export const jsonBody = (value: Json): string => `${JSON.stringify(value, null, 2)}\n`;

export function jsonReply(value: Json, status = 200): TorchReply {
  const reason = reasons[status] ?? "";
  return { status, reason, contentType: "application/json", body: jsonBody(value) };
}

/** Reason phrases, as Netty has them. */
const reasons: Readonly<Record<number, string>> = {
  200: "OK",
  202: "Accepted",
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  409: "Conflict",
  422: "Unprocessable Entity",
  500: "Internal Server Error",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  507: "Insufficient Storage",
};

/**
 * JSON of a model's answer, as Python's `json.dumps(value, indent=2)` writes it: all in ASCII.
 *
 * @example
 * pythonJson({ a: "é" }); // '{\n  "a": "\\u00e9"\n}'
 */
export function pythonJson(value: Json): string {
  const text = JSON.stringify(value, null, 2);
  return text.replaceAll(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

const never: readonly string[] = [
  ...["Pragma", "no-cache"],
  ...["Cache-Control", "no-cache; no-store, must-revalidate, private"],
  ...["Expires", "Thu, 01 Jan 1970 00:00:00 UTC"],
];

/**
 * Sends a reply with the headers of TorchServe, in its order and spelling. A status of 400 or more
 * ends the connection, and so does a client that asks for its end, and a server that ends.
 */
export function send(request: FastifyRequest, reply: FastifyReply, given: TorchReply): void {
  const { status, reason, contentType, headers = [], body } = given;
  reply.hijack();
  const { raw } = reply;
  raw.sendDate = false;
  const isLast = status >= 400 || !raw.shouldKeepAlive || raw.getHeader("connection") === "close";
  const own = headers.filter(([name]) => !framing.has(name.toLowerCase())).flat();
  raw.writeHead(status, reason, [
    ...(contentType === undefined ? [] : ["content-type", contentType]),
    ...own,
    ...["x-request-id", request.id],
    ...never,
    ...["content-length", String(Buffer.byteLength(body))],
    ...["connection", isLast ? "close" : "keep-alive"],
  ]);
  raw.end(body);
}

/** Headers that say where the reply ends, which no handler decides. */
const framing = new Set(["connection", "content-length", "content-type", "transfer-encoding"]);

/** Sends a refusal, or an error of Sluice as what TorchServe says in its case. */
export function sendFailure(
  error: SluiceError | Refusal,
  reply: FastifyReply,
  request: FastifyRequest,
): void {
  if ("code" in error && error.code === "CLIENT_GONE") return void reply.hijack().raw.destroy();
  if ("code" in error && error.code === "BODY_TOO_LARGE") return sendTooLarge(reply);
  const { status, type, message } = error instanceof Refusal ? error : refusalOf(error);
  const body = { code: status, type, message };
  send(request, reply, jsonReply(body, status));
}

/** The one reply without the usual headers. */
function sendTooLarge(reply: FastifyReply): void {
  reply.hijack();
  const { raw } = reply;
  raw.sendDate = false;
  raw.removeHeader("connection");
  raw.writeHead(413, "Request Entity Too Large", { "content-length": "0" });
  raw.end();
}

/** The refusal that stands for an error of Sluice. */
export function refusalOf(error: SluiceError): Refusal {
  // TorchServe takes any failure that names CUDA for missing memory.
  const isCuda = error.code === "PREDICTION_FAILED" && error.message.includes("CUDA");
  const code = isCuda ? "OUT_OF_MEMORY" : error.code;
  const row = wireTable[code];
  const others = [error.retryable ? 503 : 500, "InternalServerException"] as const;
  const [status, type, words = row?.words ?? error.message] = row?.torchserve ?? others;
  return new Refusal(status, type, words);
}
