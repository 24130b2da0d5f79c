/** What can be told that its caller no longer waits. */
export interface Abortable {
  abort(reason: unknown): void;
}

/**
 * Tells held requests when their signal is aborted, with one listener a signal rather than one a
 * request: a run hands the same signal to each of its requests, and adding a listener to it costs
 * more than all else that an engine does for a request.
 *
 * @example
 * const watch = new AbortWatch();
 * watch.add(signal, held);
 * watch.remove(signal, held); // once it is answered
 */
export class AbortWatch {
  readonly #watched = new Map<AbortSignal, Watched>();

  /** Calls `held.abort(reason)` when the signal is aborted; at once when it already is. */
  add(signal: AbortSignal, held: Abortable): void {
    if (signal.aborted) return held.abort(signal.reason);
    let watched = this.#watched.get(signal);
    if (!watched) {
      const members = new Set<Abortable>();
      const listener = () => this.#abortAll(signal, members);
      watched = { members, listener };
      this.#watched.set(signal, watched);
      signal.addEventListener("abort", listener, { once: true });
    }
    watched.members.add(held);
  }

  /** Forgets a request that needs no telling any more. */
  remove(signal: AbortSignal, held: Abortable): void {
    const watched = this.#watched.get(signal);
    if (!watched?.members.delete(held) || watched.members.size > 0) return;
    this.#watched.delete(signal);
    signal.removeEventListener("abort", watched.listener);
  }

  #abortAll(signal: AbortSignal, members: Set<Abortable>): void {
    this.#watched.delete(signal);
    for (const held of [...members]) held.abort(signal.reason);
  }
}

interface Watched {
  members: Set<Abortable>;
  listener: () => void;
}
