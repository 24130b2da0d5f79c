import { SluiceError } from "../foundation/errors.ts";
import { digestOf as digestOfJson } from "../foundation/hashing.ts";
import type { InferenceRequest } from "../foundation/inference.ts";
import type { Json } from "../foundation/json.ts";
import { limits } from "../foundation/limits.ts";

/** Deaths of a model with a request in work, after which that request runs alone. */
const deathsInCompany = 2;

/** Requests that are remembered; the oldest are forgotten first. */
const maxSuspects = 10_000;

interface Deaths {
  inCompany: number;
  alone: number;
}

export interface Suspect {
  request: InferenceRequest;
  /** What its row or file says, if these differ each time. Default: these. */
  content?: Json | undefined;
}

/**
 * Finds the request that ends its model. Whatever was in work at a death is suspected. A request
 * that saw two deaths runs with nothing beside it from then on; an answer clears it, and with the
 * third death alone it is refused for good. Clients that repeat a request bring the proof.
 * Runs search in other ways: see ARCHITECTURE, "Four searches for what kills an engine".
 */
export class Suspects {
  readonly #byDigest = new Map<string, Deaths>();

  /**
   * Whether a request has to run alone.
   *
   * @throws SluiceError `ROW_KILLS_ENGINE` if it ended the model too often.
   */
  mustBeAlone(suspect: Suspect): boolean {
    if (this.#byDigest.size === 0) return false;
    const found = this.#byDigest.get(digestOf(suspect));
    if (found === undefined) return false;
    if (found.alone >= limits.maxRowKills) {
      throw new SluiceError("ROW_KILLS_ENGINE", `${limits.maxRowKills} times`);
    }
    return found.inCompany >= deathsInCompany;
  }

  /** Records a death of the model with the request in work. */
  noteDeath(suspect: Suspect, isAlone: boolean): void {
    const digest = digestOf(suspect);
    const found = this.#byDigest.get(digest) ?? { inCompany: 0, alone: 0 };
    if (isAlone) found.alone++;
    else found.inCompany++;
    this.#byDigest.delete(digest);
    this.#byDigest.set(digest, found);
    const [oldest] = this.#byDigest.keys();
    if (this.#byDigest.size > maxSuspects) this.#byDigest.delete(oldest!);
  }

  clear(suspect: Suspect): void {
    if (this.#byDigest.size > 0) this.#byDigest.delete(digestOf(suspect));
  }
}

/** What a request asks, without what differs each time. */
function digestOf({ request, content }: Suspect): string {
  const { messages, prompt, embed, tools, toolChoice, structure, transcription } = request;
  const { row, file, parameters } = request;
  const { seed: _, ...sampling } = parameters;
  return digestOfJson({
    ...{ messages, prompt, embed, tools, toolChoice, schema: structure?.schema, transcription },
    ...{ content: content ?? { row, file }, sampling },
  });
}
