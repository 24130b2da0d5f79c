/** Bytes of answer bodies in memory while they arrive; above it, one at a time is received. */
const maxReplyBytesInFlight = 128 * 1024 * 1024;

/** A reply that is being received, and can be made to wait. */
export interface Incoming {
  pause(): void;
  resume(): void;
}

/**
 * Bytes of replies in memory, however many are in flight. If they are too many, all but the oldest
 * wait, so that one of them always comes to its end.
 */
export class ReplyMemory {
  readonly #maxBytes: number;
  /** Bytes of each reply, the oldest first. */
  readonly #held = new Map<Incoming, number>();
  readonly #waiting = new Set<Incoming>();
  #bytes = 0;

  constructor(maxBytes: number = maxReplyBytesInFlight) {
    this.#maxBytes = maxBytes;
  }

  /** More of a reply has arrived. */
  take(reply: Incoming, bytes: number): void {
    this.#held.set(reply, (this.#held.get(reply) ?? 0) + bytes);
    this.#bytes += bytes;
    if (this.#bytes <= this.#maxBytes || reply === this.#oldest || this.#waiting.has(reply)) return;
    this.#waiting.add(reply);
    reply.pause();
  }

  /** A reply is complete, or will not be completed. */
  release(reply: Incoming): void {
    const bytes = this.#held.get(reply);
    if (bytes === undefined) return;
    this.#held.delete(reply);
    this.#waiting.delete(reply);
    this.#bytes -= bytes;
    const oldest = this.#oldest;
    const next = this.#bytes <= this.#maxBytes ? [...this.#waiting] : oldest ? [oldest] : [];
    for (const each of next) if (this.#waiting.delete(each)) each.resume();
  }

  get #oldest(): Incoming | undefined {
    return this.#held.keys().next().value;
  }
}
