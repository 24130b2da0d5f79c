import type { IncomingHttpHeaders } from "node:http";
import type { OnDelta } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject, jsonObjectIn } from "../../foundation/json.ts";
import { type HttpReply, type ReplySink, TransportError } from "./transport.ts";

/** The members of a body that request a stream. */
export const streamFields = `,"stream":true,"stream_options":{"include_usage":true}}`;

/** One of the answers, as far as it has arrived. */
interface StreamedChoice {
  text: string;
  /** The model thought, or calls tools: without text there may be no answer. */
  hasOther: boolean;
  finishReason: Json;
  toolCalls: JsonObject[];
  /** Lists of the log-probabilities by their names: `content`, or `tokens` and others. */
  logprobs: Record<string, Json[]> | undefined;
}

/**
 * A reply of server-sent events, assembled into the body of an unstreamed reply. So all later code
 * reads one form: answers, usage and errors are the same.
 */
export class StreamedReply implements ReplySink {
  readonly #form: "chat" | "completion";
  readonly #count: number;
  readonly #onDelta: OnDelta;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  readonly #choices = new Map<number, StreamedChoice>();
  /** The beginning of a line without its end. */
  #line = "";
  /** The data of the present event. */
  #data: string[] = [];
  #usage: Json = null;
  /** The server's error instead of the rest. */
  #error: Json | undefined;
  #isEnded = false;
  /** Whether anything was reported, which cannot be taken back. */
  hasTold = false;

  /** @param count requested answers; the server may give more. */
  constructor(form: "chat" | "completion", count: number, onDelta: OnDelta) {
    this.#form = form;
    this.#count = count;
    this.#onDelta = onDelta;
  }

  /** @throws TransportError `garbled` for what is not UTF-8. */
  add(chunk: Uint8Array): void {
    const lines = (this.#line + this.#decoded(chunk)).split(/\r\n|\n|\r(?!$)/);
    this.#line = lines.pop()!;
    for (const line of lines) this.#addLine(line);
  }

  /**
   * The reply as it would be without streaming.
   *
   * @throws TransportError `lost` if the stream ended before the answers did.
   */
  end(headers: IncomingHttpHeaders): HttpReply {
    this.#addLine(this.#line.replace(/\r$/, ""));
    this.#addLine("");
    if (this.#error !== undefined) {
      const text = JSON.stringify({ error: this.#error });
      return { status: statusOf(this.#error), headers, text };
    }
    const choices = [...this.#choices];
    const areWhole = choices.length > 0 && choices.every(([, each]) => each.finishReason !== null);
    if (!this.#isEnded && !areWhole) {
      throw new TransportError("lost", "the stream ended before the answer did");
    }
    const body = { choices: choices.map((entry) => this.#wholeChoice(entry)), usage: this.#usage };
    try {
      return { status: 200, headers, text: JSON.stringify(body) };
    } catch {
      // Events may nest deeper than can be written.
      throw new TransportError("garbled", "the stream is too deep");
    }
  }

  #decoded(chunk: Uint8Array): string {
    try {
      return this.#decoder.decode(chunk, { stream: true });
    } catch {
      throw new TransportError("garbled", "the reply is not UTF-8 text");
    }
  }

  #addLine(line: string): void {
    if (line.startsWith("data:")) this.#data.push(line.slice(5).trimStart());
    // Some servers send an error as a separate field.
    else if (line.startsWith("error:")) this.#data.push(`{"error":${line.slice(6)}}`);
    else if (line === "" && this.#data.length > 0) {
      const data = this.#data.join("\n");
      this.#data = [];
      this.#addEvent(data);
    }
  }

  #addEvent(data: string): void {
    if (this.#isEnded || this.#error !== undefined) return;
    if (data === "[DONE]") {
      this.#isEnded = true;
      return;
    }
    const event = jsonObjectIn(data);
    if (event === undefined) {
      throw new TransportError("garbled", "an event of the stream is not a JSON object");
    }
    if (event.error !== undefined && event.error !== null) {
      this.#error = event.error;
      return;
    }
    if (isJsonObject(event.usage ?? null)) this.#usage = event.usage!;
    const { choices } = event;
    for (const choice of Array.isArray(choices) ? choices : []) {
      if (isJsonObject(choice)) this.#addTo(choice);
    }
  }

  #addTo(piece: JsonObject): void {
    const index = typeof piece.index === "number" ? piece.index : 0;
    const choice = this.#choices.get(index) ?? newChoice();
    this.#choices.set(index, choice);
    choice.finishReason = piece.finish_reason ?? choice.finishReason;
    addLogprobs(choice, piece.logprobs);
    const delta = isJsonObject(piece.delta ?? null) ? (piece.delta as JsonObject) : {};
    addToolCalls(choice.toolCalls, delta.tool_calls);
    const text = this.#form === "chat" ? delta.content : piece.text;
    if (typeof text !== "string" || text === "") {
      choice.hasOther ||= Object.keys(delta).some((key) => !plainMembers.has(key));
      return;
    }
    choice.text += text;
    if (index >= this.#count) return;
    this.hasTold = true;
    this.#onDelta({ choice: index, text });
  }

  #wholeChoice([index, choice]: readonly [number, StreamedChoice]): JsonObject {
    const { finishReason, toolCalls, logprobs = null } = choice;
    const text = choice.text === "" && choice.hasOther ? null : choice.text;
    const common = { index, finish_reason: finishReason, logprobs };
    if (this.#form === "completion") return { ...common, text };
    const message: JsonObject = { role: "assistant", content: text };
    if (toolCalls.length > 0) message.tool_calls = toolCalls;
    return { ...common, message };
  }
}

/** Members of a delta without meaning beside the text. */
const plainMembers = new Set(["role", "content", "refusal"]);

function newChoice(): StreamedChoice {
  return { text: "", hasOther: false, finishReason: null, toolCalls: [], logprobs: undefined };
}

function addLogprobs(choice: StreamedChoice, logprobs: Json | undefined): void {
  if (!isJsonObject(logprobs ?? null)) return;
  choice.logprobs ??= {};
  for (const [name, values] of Object.entries(logprobs as JsonObject)) {
    if (!Array.isArray(values)) continue;
    const known = Object.hasOwn(choice.logprobs, name) ? choice.logprobs[name]! : [];
    known.push(...values);
    choice.logprobs[name] = known;
  }
}

/** A call comes in pieces: first its id and name, then its arguments as a growing text. */
function addToolCalls(calls: JsonObject[], pieces: Json | undefined): void {
  for (const piece of Array.isArray(pieces) ? pieces : []) {
    if (!isJsonObject(piece)) continue;
    const { index, function: named, ...others } = piece;
    // A piece without a number continues the last call, unless it has an id of its own.
    const last = others.id === undefined ? Math.max(0, calls.length - 1) : calls.length;
    const at = typeof index === "number" && index <= calls.length ? index : last;
    const call = calls[at] ?? {};
    calls[at] = { ...call, ...others };
    if (isJsonObject(named ?? null)) {
      calls[at].function = joined(call.function as JsonObject | undefined, named as JsonObject);
    }
  }
}

function joined(before: JsonObject = {}, more: JsonObject): JsonObject {
  const { arguments: text = "", ...others } = more;
  return { ...before, ...others, arguments: `${before.arguments ?? ""}${text}` };
}

/** The status of an unstreamed reply with this error. */
function statusOf(error: Json): number {
  if (!isJsonObject(error)) return 500;
  const code = Number(error.code);
  if (Number.isInteger(code) && code >= 400 && code < 600) return code;
  return error.type === "invalid_request_error" ? 400 : 500;
}
