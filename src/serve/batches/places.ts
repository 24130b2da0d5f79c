/** Places of which each holder has one; others wait in their order. */
export class Places {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /**
   * Waits for a place.
   *
   * @param hurry aborted when the caller needs none any more: it goes on at once.
   * @param signal ends the waiting.
   * @returns the call that gives the place back.
   * @throws the signal's reason.
   */
  async take(hurry: AbortSignal, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (hurry.aborted) return () => {};
    if (this.#free > 0) {
      this.#free--;
      return this.#giver();
    }
    const over = AbortSignal.any([hurry, signal]);
    const hasPlace = await new Promise<boolean>((resolve) => {
      const onTurn = () => resolve(true);
      this.#waiting.add(onTurn);
      over.addEventListener("abort", () => {
        if (this.#waiting.delete(onTurn)) resolve(false);
      });
    });
    if (hasPlace) return this.#giver();
    signal.throwIfAborted();
    return () => {};
  }

  #giver(): () => void {
    let isGiven = false;
    return () => {
      if (isGiven) return;
      isGiven = true;
      const [next] = this.#waiting;
      if (next === undefined) this.#free++;
      else {
        this.#waiting.delete(next);
        next();
      }
    };
  }
}
