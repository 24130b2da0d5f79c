import { boundOf } from "../foundation/bounded-load.ts";
import { textHash } from "../foundation/hashing.ts";
import { type ChatMessage, contentText } from "../foundation/inference.ts";

/** Beginnings of chats that are remembered; those that were not asked for longest are forgotten. */
const maxBeginnings = 8192;

/** A copy of a model, as far as its choice needs it. */
export interface Replica {
  readonly place: number;
  /** Requests that it holds, and that it computes at once. */
  readonly inFlight: number;
  readonly concurrency: number;
}

/**
 * Sends chats to the copy of a model that has computed their beginning, so that it is not computed
 * again: the system prompt, and the turns before. A copy with more than `loadBound` times its share
 * of the requests is passed over.
 */
export class PrefixAffinity {
  /** Places of the copies that had a beginning, by its hash; the oldest beginning first. */
  readonly #holders = new Map<number, Set<number>>();

  /** @param replicas at least one. */
  choose<R extends Replica>(messages: readonly ChatMessage[], replicas: readonly R[]): R {
    const beginnings = beginningsOf(messages);
    const inFlight = replicas.reduce((sum, each) => sum + each.inFlight, 0);
    const concurrency = replicas.reduce((sum, each) => sum + each.concurrency, 0);
    const hasRoom = (each: R) =>
      each.inFlight < each.concurrency &&
      each.inFlight < boundOf(each.concurrency, concurrency, inFlight);
    const chosen = mostRoom(this.#holdersOf(beginnings, replicas).filter(hasRoom));
    const replica = chosen ?? mostRoom(replicas)!;
    this.#note(beginnings, replica.place);
    return replica;
  }

  /** The copies that had the longest known beginning. */
  #holdersOf<R extends Replica>(beginnings: readonly number[], replicas: readonly R[]): R[] {
    for (const beginning of beginnings.toReversed()) {
      const places = this.#holders.get(beginning);
      const holders = places ? replicas.filter(({ place }) => places.has(place)) : [];
      if (holders.length > 0) return holders;
    }
    return [];
  }

  #note(beginnings: readonly number[], place: number): void {
    for (const beginning of beginnings) {
      const places = this.#holders.get(beginning) ?? new Set();
      places.add(place);
      this.#holders.delete(beginning);
      this.#holders.set(beginning, places);
    }
    for (const oldest of this.#holders.keys()) {
      if (this.#holders.size <= maxBeginnings) break;
      this.#holders.delete(oldest);
    }
  }
}

/** A number for each message: of the chat up to and including it. */
function beginningsOf(messages: readonly ChatMessage[]): number[] {
  let hash = textHash("");
  return messages.map(({ role, content }) => {
    const text = `${role}\n${contentText(content)}\n`;
    hash = textHash(text, 0, text.length, hash);
    return hash;
  });
}

/** The first one with the most room. */
export function mostRoom<R extends Replica>(replicas: readonly R[]): R | undefined {
  const [first, ...others] = replicas;
  if (first === undefined) return undefined;
  return others.reduce((best, each) => (roomOf(each) > roomOf(best) ? each : best), first);
}

const roomOf = ({ concurrency, inFlight }: Replica) => concurrency - inFlight;
