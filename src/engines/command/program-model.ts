import { type Clock, untilAborted } from "../../foundation/clock.ts";
import {
  type InferenceRequest,
  type InferenceResponse,
  requestSeed,
} from "../../foundation/inference.ts";
import type { BatchModel } from "../batching/batched.ts";
import { itemFacts } from "../batching/prediction.ts";
import { programParameters } from "./parameters.ts";
import type { Program } from "./program.ts";
import type { CommandItem } from "./protocol.ts";
import { failureOf, responseOf } from "./response.ts";

/** A program as a model of batches, whose requests have the same parameters except seeds. */
export class ProgramModel implements BatchModel<InferenceRequest, InferenceResponse> {
  readonly #program: Program;
  readonly #clock: Clock;
  /** The previous batch, which may still be computed after its callers have left. */
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
    // The code that forms batches reports an invalid list.
    if (!Array.isArray(reply.results)) return reply.results as never;
    const seconds = (this.#clock.monotonic() - startedMs) / 1000;
    if (reply.results.length !== batch.length) return reply.results;
    return reply.results.map((result, at) => responseOf(result, batch[at]!, seconds));
  }
}

function itemOf(request: InferenceRequest): CommandItem {
  const { row, structure } = request;
  const parameters = { seed: requestSeed(request) };
  return { ...itemFacts(request), row, schema: structure?.schema, parameters };
}
