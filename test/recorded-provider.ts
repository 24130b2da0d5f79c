import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import type { JsonObject } from "../src/foundation/json.ts";

/** A line of a batch's input. */
export interface InputLine {
  custom_id: string;
  body: { messages?: { content: string }[]; input?: string };
}

/** What becomes of a request: its answer, a refusal, an expiry, or no line at all. */
export type Ending =
  | { status: number; body: JsonObject }
  | "expired"
  | "missing"
  /** The form of vLLM: the reason is beside the response. */
  | { status: number; error: JsonObject };

/** What happens to one call. `lost`: it is obeyed, and the reply is lost; `cut`: it is not. */
export type Fault = "lost" | "cut" | { status: number; body?: JsonObject; headers?: JsonObject };

export interface ProviderScript {
  /** `call` is as `POST /batches`; `count` counts calls of this name, from 1. */
  fault?(call: string, count: number): Fault | undefined;
  /** States that a batch has at its looks, one after the other; the last one stays. */
  states?(number: number): readonly string[];
  /** Errors of a batch that fails at its validation. */
  errors?(lines: readonly InputLine[], number: number): JsonObject[];
  ending?(line: InputLine, number: number): Ending;
  /** Forgets metadata, and lists the oldest batches first. */
  isSimple?: boolean;
  /** Leaves out the id of the output file for so many looks at a completed batch. */
  hidesOutput?: number;
}

export interface StoredBatch {
  id: string;
  number: number;
  metadata: Record<string, string>;
  lines: InputLine[];
  looks: number;
  status: string;
  object: JsonObject;
}

const usual = ["validating", "in_progress", "finalizing", "completed"];

/** The content of a request, as the usual answers repeat it. */
export function saidOf({ body }: InputLine): string {
  return body.messages?.at(-1)?.content ?? String(body.input);
}

/** A good answer to a request. */
export function answerTo(text: string): Ending {
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  const message = { role: "assistant", content: text };
  const choices = [{ index: 0, message, finish_reason: "stop" }];
  return { status: 200, body: { object: "chat.completion", choices, usage } };
}

/**
 * A provider's Files and Batch API on a free port of 127.0.0.1, in the forms that were recorded of
 * OpenAI: metadata, states, error lines, results in another order, no empty files.
 */
export class RecordedProvider {
  readonly batches: StoredBatch[] = [];
  readonly files = new Map<string, { name: string; content: string; createdAt: number }>();
  readonly calls: string[] = [];
  script: ProviderScript;
  readonly #counts = new Map<string, number>();
  #uploads = 0;
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  constructor(script: ProviderScript = {}) {
    this.script = script;
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** How often a call was made. */
  count(call: string): number {
    return this.#counts.get(call) ?? 0;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url!, "http://localhost");
    const path = pathname.replace(/^\/v1/, "");
    const call = `${request.method} ${path.replace(/(batch_|file-)[\w-]+/, "ID")}`;
    const count = this.count(call) + 1;
    this.#counts.set(call, count);
    this.calls.push(call);
    // A caller that is killed sends no more of it.
    const body = await buffer(request).catch(() => undefined);
    if (body === undefined) return;
    const fault = this.script.fault?.(call, count);
    if (fault === "cut") return void request.socket.destroy();
    const scripted = typeof fault === "object" ? fault : undefined;
    const reply = scripted ?? this.#reply(call, path, searchParams, body);
    if (fault === "lost") return void request.socket.destroy();
    for (const [name, value] of Object.entries(scripted?.headers ?? {})) {
      response.setHeader(name, String(value));
    }
    const text = "text" in reply ? reply.text : JSON.stringify(reply.body ?? {});
    response.writeHead(reply.status, { "content-type": "application/json" }).end(text);
  }

  #reply(
    call: string,
    path: string,
    query: URLSearchParams,
    body: Buffer,
  ): { status: number; body?: JsonObject } | { status: number; text: string } {
    const id = /(?:batch_|file-)[\w-]+/.exec(path)?.[0] ?? "";
    const batch = this.batches.find((each) => each.id === id);
    switch (call) {
      case "GET /models":
        return { status: 200, body: { object: "list", data: [{ id: "m", object: "model" }] } };
      case "POST /files":
        return { status: 200, body: this.#upload(body.toString()) };
      case "GET /files/ID/content": {
        const file = this.files.get(id);
        return file ? { status: 200, text: file.content } : unknown("No such File object");
      }
      case "DELETE /files/ID":
        return this.files.delete(id)
          ? { status: 200, body: { id, object: "file", deleted: true } }
          : unknown("No such File object");
      case "POST /batches":
        return { status: 200, body: this.#create(JSON.parse(body.toString())) };
      case "GET /batches":
        return { status: 200, body: this.#page(query) };
      case "GET /batches/ID":
        return batch ? { status: 200, body: this.#look(batch) } : unknown("No batch found");
      case "POST /batches/ID/cancel":
        if (!batch) return unknown("No batch found");
        if (["completed", "failed"].includes(batch.status)) {
          return { status: 409, body: { error: { message: "Cannot cancel" } } };
        }
        this.end(batch, "cancelled");
        return { status: 200, body: batch.object };
      default:
        return unknown(call);
    }
  }

  #upload(form: string): JsonObject {
    const name = /filename="([^"]*)"/.exec(form)?.[1] ?? "";
    const content = /application\/octet-stream\r\n\r\n(.*)\r\n--[^\r]*--\r\n$/s.exec(form)![1]!;
    const id = `file-${++this.#uploads}`;
    const createdAt = seconds();
    this.files.set(id, { name, content, createdAt });
    return { id, object: "file", bytes: content.length, created_at: createdAt, filename: name };
  }

  #create({ input_file_id: input, endpoint, metadata }: JsonObject): JsonObject {
    const number = this.batches.length + 1;
    const id = `batch_${String(number).padStart(32, "0")}`;
    const text = this.files.get(String(input))?.content;
    const lines = (text ?? "").split("\n").filter(Boolean);
    const object = {
      ...{ id, object: "batch", endpoint, input_file_id: input, completion_window: "24h" },
      ...{ status: "validating", errors: null, output_file_id: null, error_file_id: null },
      ...{ created_at: seconds(), request_counts: { total: 0, completed: 0, failed: 0 } },
      metadata: (this.script.isSimple ? null : metadata) ?? null,
    } as JsonObject;
    const batch: StoredBatch = {
      ...{ id, number, object, looks: 0, status: "validating" },
      metadata: (metadata ?? {}) as Record<string, string>,
      lines: lines.map((line) => JSON.parse(line) as InputLine),
    };
    this.batches.push(batch);
    const missing =
      text === undefined ? [fault("invalid_request", `Cannot find file ${input}`)] : [];
    const errors = [...missing, ...(this.script.errors?.(batch.lines, number) ?? [])];
    if (errors.length > 0) object.errors = { object: "list", data: errors };
    return { ...object };
  }

  #page(query: URLSearchParams): JsonObject {
    const newest = this.script.isSimple ? this.batches : this.batches.toReversed();
    const after = newest.findIndex(({ id }) => id === query.get("after"));
    const limit = Math.min(Number(query.get("limit") ?? 20), 3);
    const data = newest.slice(after + 1, after + 1 + limit).map(({ object }) => object);
    return { object: "list", data, has_more: after + 1 + limit < newest.length };
  }

  #look(batch: StoredBatch): JsonObject {
    const states = this.script.states?.(batch.number) ?? usual;
    if (batch.object.errors) this.end(batch, "failed");
    if (!["failed", "cancelled", "expired", "completed"].includes(batch.status)) {
      const state = states[Math.min(batch.looks++, states.length - 1)]!;
      if (["completed", "expired", "cancelled"].includes(state)) this.end(batch, state);
      else this.#setStatus(batch, state);
    } else batch.looks++;
    const hides = (this.script.hidesOutput ?? 0) > 0 && batch.status === "completed";
    if (hides) this.script.hidesOutput!--;
    return { ...batch.object, ...(hides && { output_file_id: null }) };
  }

  #setStatus(batch: StoredBatch, status: string): void {
    batch.status = status;
    batch.object.status = status;
    const total = batch.lines.length;
    if (status === "in_progress") {
      batch.object.request_counts = { total, completed: Math.floor(total / 2), failed: 0 };
    }
  }

  /** Brings a batch to its end, with files of results. */
  end(batch: StoredBatch, status: string): void {
    if (batch.status === status) return;
    this.#setStatus(batch, status);
    if (status === "failed") return;
    const good: string[] = [];
    const bad: string[] = [];
    // In another order than the input.
    for (const line of batch.lines.toReversed()) {
      const ending =
        status === "cancelled"
          ? "missing"
          : (this.script.ending ?? usualEnding)(line, batch.number);
      const { custom_id } = line;
      const id = `batch_req_${custom_id}`;
      if (ending === "missing") continue;
      if (ending === "expired") {
        const error = { code: "batch_expired", message: "The window is over." };
        bad.push(JSON.stringify({ id, custom_id, response: null, error }));
      } else if ("error" in ending) {
        const response = { status_code: ending.status, request_id: "r", body: null };
        bad.push(JSON.stringify({ id, custom_id, response, error: ending.error }));
      } else {
        const response = { status_code: ending.status, request_id: "r", body: ending.body };
        const text = JSON.stringify({ id, custom_id, response, error: null });
        (ending.status === 200 ? good : bad).push(text);
      }
    }
    batch.object.output_file_id = this.#results(`${batch.id}-out`, good);
    batch.object.error_file_id = this.#results(`${batch.id}-err`, bad);
    const total = batch.lines.length;
    batch.object.request_counts = { total, completed: good.length, failed: bad.length };
  }

  #results(name: string, lines: readonly string[]): string | null {
    if (lines.length === 0) return null;
    const id = `file-${name.replaceAll("_", "-")}`;
    this.files.set(id, { name, content: `${lines.join("\n")}\n`, createdAt: seconds() });
    return id;
  }
}

/** An error of a batch that fails at its validation. */
export function fault(code: string, message: string, line: number | null = null): JsonObject {
  return { code, message, param: null, line };
}

function usualEnding(line: InputLine): Ending {
  return answerTo(`re: ${saidOf(line)}`);
}

function unknown(message: string) {
  return { status: 404, body: { error: { message, type: "invalid_request_error", param: "id" } } };
}

function seconds(): number {
  return Math.floor(Date.now() / 1000);
}
