/** An object that can be told that its caller no longer waits. */
export interface Abortable {
  abort(reason: unknown): void;
  /** Its place in its watch; one watch at a time. */
  watchedPlace?: number;
}

/**
 * Aborts held requests with their signal, with one listener for each signal instead of each
 * request: a run passes the same signal with each request, and adding a listener costs more than
 * all else that an engine does for a request.
 *
 * @example
 * const watch = new AbortWatch();
 * watch.add(signal, held);
 * watch.remove(signal, held); // once it is answered
 */
export class AbortWatch {
  readonly #watched = new Map<AbortSignal, Watched>();

  /** Calls `held.abort(reason)` when the signal is aborted; at once if it already is. */
  add(signal: AbortSignal, held: Abortable): void {
    if (signal.aborted) return held.abort(signal.reason);
    let watched = this.#watched.get(signal);
    if (!watched) {
      const members: Abortable[] = [];
      const listener = () => this.#abortThose(signal, members);
      watched = { members, listener };
      this.#watched.set(signal, watched);
      signal.addEventListener("abort", listener, { once: true });
    }
    held.watchedPlace = watched.members.push(held) - 1;
  }

  /** Removes a request that needs no abort any more. */
  remove(signal: AbortSignal, held: Abortable): void {
    const watched = this.#watched.get(signal);
    const { watchedPlace: place = -1 } = held;
    if (watched?.members[place] !== held) return;
    // The last one takes its place: members need no order, and a Set with constant changes leaves
    // tables behind that the garbage collector keeps for long.
    const last = watched.members.pop()!;
    if (last !== held) {
      watched.members[place] = last;
      last.watchedPlace = place;
    }
    if (watched.members.length > 0) return;
    this.#watched.delete(signal);
    signal.removeEventListener("abort", watched.listener);
  }

  /** Aborts every request that is held. */
  abortAll(reason: unknown): void {
    for (const [signal, { members, listener }] of this.#watched) {
      signal.removeEventListener("abort", listener);
      for (const held of [...members]) held.abort(reason);
    }
    this.#watched.clear();
  }

  #abortThose(signal: AbortSignal, members: readonly Abortable[]): void {
    this.#watched.delete(signal);
    for (const held of [...members]) held.abort(signal.reason);
  }
}

interface Watched {
  members: Abortable[];
  listener: () => void;
}
