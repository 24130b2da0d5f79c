import { SluiceError } from "../../foundation/errors.ts";
import { type InferenceRequest, noOrigin } from "../../foundation/inference.ts";
import { mix32 } from "../../foundation/random.ts";
import type { FakeModelOptions, fakeFailureKinds } from "./options.ts";

/** How a request can fail. */
export type FakeFailureKind = (typeof fakeFailureKinds)[number];

type FaultOptions = Pick<FakeModelOptions, "seed" | "failureRate" | "failures">;

/**
 * Decides which requests fail, and how, by the seed: never by the order of arrival. Repeated
 * requests after a retryable failure are counted, so that `failureRate` is a share of all requests,
 * and a failure by `rate` of kind `retryable` hits a request once.
 */
export class FakeFaults {
  readonly #options: FaultOptions;
  readonly #counts = new Map<string, number>();
  readonly #isCounting: boolean;

  /** @throws SluiceError `JOB_INVALID` if a failure names neither a row nor a rate, or both. */
  constructor(options: FaultOptions) {
    for (const [position, { row, rate }] of options.failures.entries()) {
      if ((row === undefined) !== (rate === undefined)) continue;
      throw new SluiceError("JOB_INVALID", "give exactly one of row and rate", {
        field: `model.failures.${position}`,
      });
    }
    this.#options = options;
    this.#isCounting =
      options.failureRate > 0 ||
      options.failures.some(({ rate, kind }) => rate !== undefined && kind === "retryable");
  }

  /** How this request fails, or undefined if it is answered. Call it once for each request. */
  next(request: InferenceRequest): FakeFailureKind | undefined {
    if (!this.#isCounting) return this.#failureOf(request, 0);
    const { index, promptName, element = "-" } = request.origin ?? noOrigin;
    const key = `${index} ${element} ${promptName}`;
    const earlierAsks = this.#counts.get(key) ?? 0;
    const kind = this.#failureOf(request, earlierAsks);
    // Only requests that will be repeated are remembered.
    if (kind === "retryable") this.#counts.set(key, earlierAsks + 1);
    else this.#counts.delete(key);
    return kind;
  }

  #failureOf(request: InferenceRequest, earlierAsks: number): FakeFailureKind | undefined {
    const { seed, failureRate, failures } = this.#options;
    const { index, promptName, element = -1 } = request.origin ?? noOrigin;
    for (const [position, { row, rate, kind }] of failures.entries()) {
      if (row === index) return kind;
      if (rate === undefined || (kind === "retryable" && earlierAsks > 0)) continue;
      if (chance(seed, position, index) < rate) return kind;
    }
    if (failureRate === 0) return undefined;
    const place = textHash(promptName) + element * 31;
    const drawn = chance(seed, -1, index, place, earlierAsks);
    return drawn < failureRate ? "retryable" : undefined;
  }
}

/** A number in [0, 1) that follows from the given ones. */
function chance(...numbers: number[]): number {
  let state = 0x2545f491;
  for (const value of numbers) state = mix32((state + Math.imul(value | 0, 0x9e3779b1)) | 0);
  return state / 0x1_0000_0000;
}

function textHash(text: string): number {
  let hash = 0;
  for (const character of text) hash = Math.imul(hash ^ character.codePointAt(0)!, 0x01000193);
  return hash;
}
