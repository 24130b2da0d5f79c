import { SluiceError } from "../foundation/errors.ts";
import {
  type ChatMessage,
  contentText,
  type InferenceRequest,
  type InferenceResponse,
  type OnDelta,
} from "../foundation/inference.ts";
import { withDeltas } from "./deltas.ts";
import type { Engine } from "./engine.ts";
import type { EngineDescription } from "./engine-description.ts";
import { WrappedEngine } from "./wrapped-engine.ts";

/** What an engine takes of a chat beside text. */
type Taken = Pick<EngineDescription<never>, "callsTools" | "contentParts">;

/**
 * The same engine with the promises of every engine: it refuses what it would otherwise ignore, and
 * reports every answer as deltas, even if the inner engine reports none.
 */
export function openedEngine(engine: Engine, taken: Taken): Engine {
  return new OpenedEngine(engine, taken);
}

class OpenedEngine extends WrappedEngine {
  readonly #taken: Taken;

  constructor(inner: Engine, taken: Taken) {
    super(inner);
    this.#taken = taken;
  }

  /** @throws SluiceError `PARAMETER_UNSUPPORTED` for tools or parts that the engine cannot take. */
  infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    try {
      const taken = this.#takenOf(request);
      if (onDelta === undefined) return this.inner.infer(taken, signal);
      return withDeltas(onDelta, signal, (tell) => this.inner.infer(taken, signal, tell));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #takenOf(request: InferenceRequest): InferenceRequest {
    const { messages, tools, toolChoice, parallelToolCalls } = request;
    if (tools !== undefined) this.#assertTools("tools");
    if (toolChoice !== undefined) this.#assertTools("toolChoice");
    if (parallelToolCalls !== undefined) this.#assertTools("parallelToolCalls");
    // Almost all requests of runs have only text.
    if (messages === undefined || messages.every(isWords)) return request;
    for (const [at, message] of messages.entries()) this.#assertTaken(message, `messages[${at}]`);
    if (this.#taken.contentParts !== undefined) return request;
    const texts = messages.map((each) => ({ ...each, content: contentText(each.content) }));
    return { ...request, messages: texts };
  }

  #assertTaken(message: ChatMessage, field: string): void {
    if (message.role === "tool") this.#assertTools(`${field}.role`);
    if (message.role === "assistant" && message.toolCalls) this.#assertTools(`${field}.toolCalls`);
    if (typeof message.content === "string") return;
    for (const [at, { type }] of message.content.entries()) {
      if (type === "text" || this.#taken.contentParts?.includes(type)) continue;
      throw this.#refused(`takes no ${type} in messages`, `${field}.content[${at}]`);
    }
  }

  #assertTools(field: string): void {
    if (!this.#taken.callsTools) throw this.#refused("calls no tools", field);
  }

  #refused(detail: string, field: string): SluiceError {
    const hint = "take it out, or ask a server by engine openai";
    return new SluiceError("PARAMETER_UNSUPPORTED", `${field}: engine ${this.name} ${detail}`, {
      ...{ field, hint },
    });
  }
}

function isWords(message: ChatMessage): boolean {
  return typeof message.content === "string" && message.role !== "tool" && !hasCalls(message);
}

function hasCalls(message: ChatMessage): boolean {
  return message.role === "assistant" && message.toolCalls !== undefined;
}
