import type { FastifyRequest } from "fastify";
import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { assertShallow } from "../listener.ts";

/** A value of a request: JSON, a text, or bytes. */
export type BodyValue = Json | Uint8Array;

/** The body of a request: one value, or the fields of a form. */
export type RequestBody =
  /** @param json the text that the value was read from. */
  { body: BodyValue; json?: string } | { fields: Record<string, BodyValue> };

/**
 * Reads a body: JSON where its type says so, or where it says nothing of the kind and the text is
 * an object or a list (`curl -d` calls everything a form); text; the fields of a form, the last one
 * of each name; anything else as bytes. Text that claims to be JSON and is not stays text.
 */
export async function readBody(request: FastifyRequest): Promise<RequestBody> {
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
export function rowOf(body: RequestBody): JsonObject {
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
export function headersOf(
  { raw: { rawHeaders } }: FastifyRequest,
  added: readonly (readonly [string, string])[],
): Record<string, string> {
  const sent = rawHeaders.flatMap((name, at) =>
    at % 2 === 0 ? [[name, rawHeaders[at + 1]!] as const] : [],
  );
  return Object.fromEntries([...sent, ...added]);
}

/** The row of a body for a handler in Python, with the headers that its context shows. */
export function handlerRow(
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
