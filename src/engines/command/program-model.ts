import type { Clock } from "../../foundation/clock.ts";
import {
  type InferenceRequest,
  type InferenceResponse,
  noOrigin,
  requestSeed,
  type TextMessage,
} from "../../foundation/inference.ts";
import type { BatchModel } from "../batching/batched.ts";
import { programParameters } from "./parameters.ts";
import type { Program } from "./program.ts";
import type { CommandItem } from "./protocol.ts";
import { failureOf, responseOf } from "./response.ts";

/** A program as a model of batches, whose requests have the same parameters, seeds aside. */
export class ProgramModel implements BatchModel<InferenceRequest, InferenceResponse> {
  readonly #program: Program;
  readonly #clock: Clock;
  /** The batch before, which may still be computed when nobody waits for it any more. */
  #previous: Promise<unknown> = Promise.resolve();

  constructor(program: Program, clock: Clock) {
    this.#program = program;
    this.#clock = clock;
  }

  async run(
    batch: readonly InferenceRequest[],
    signal: AbortSignal,
  ): Promise<readonly (InferenceResponse | Error)[]> {
    const asked = this.#ask(batch, this.#previous, signal);
    this.#previous = asked.catch(() => {});
    return untilAborted(asked, signal);
  }

  async #ask(
    batch: readonly InferenceRequest[],
    previous: Promise<unknown>,
    signal: AbortSignal,
  ): Promise<readonly (InferenceResponse | Error)[]> {
    await previous;
    signal.throwIfAborted();
    const startedMs = this.#clock.monotonic();
    const parameters = programParameters(batch[0]!.parameters);
    const reply = await this.#program.ask(parameters, batch.map(itemOf));
    if (reply.type === "error") throw failureOf(reply.error);
    // Whoever forms the batches says what is wrong with a list that is none.
    if (!Array.isArray(reply.results)) return reply.results as never;
    const seconds = (this.#clock.monotonic() - startedMs) / 1000;
    if (reply.results.length !== batch.length) return reply.results;
    return reply.results.map((result, at) => responseOf(result, batch[at]!, seconds));
  }
}

function itemOf(request: InferenceRequest): CommandItem {
  const { prompt, row, structure, origin = noOrigin } = request;
  // An engine that takes no parts and no tools gets words alone.
  const messages = request.messages as readonly TextMessage[] | undefined;
  const { index, promptName, element } = origin;
  return {
    index,
    promptName,
    ...(element !== undefined && { element }),
    ...(prompt !== undefined && { prompt }),
    ...(messages !== undefined && { messages }),
    ...(row !== undefined && { row }),
    ...(structure !== undefined && { schema: structure.schema }),
    parameters: { seed: requestSeed(request) },
  };
}

/** What a promise gives, or the signal's reason where that comes first. */
function untilAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
