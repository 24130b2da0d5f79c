import type { FastifyReply } from "fastify";
import { asSluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import type { Asked, Call, ServedModel } from "../served-model.ts";
import { errorBody, writeFailure } from "./failure.ts";

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
export async function streamAnswer(
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
