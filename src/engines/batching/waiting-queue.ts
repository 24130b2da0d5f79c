/** A member of one `WaitingQueue` at a time; the queue sets its fields. */
export interface Waiting<Item> {
  isQueued: boolean;
  previous?: Item | undefined;
  next?: Item | undefined;
}

/**
 * A queue in which joining and leaving have a constant cost, also in the middle. Members are linked
 * through their own fields, so that nothing is copied or searched.
 *
 * @example
 * const queue = new WaitingQueue<Pending>();
 * queue.add(pending);
 * const [next] = queue.front(1);
 */
export class WaitingQueue<Item extends Waiting<Item>> {
  #first: Item | undefined;
  #last: Item | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get first(): Item | undefined {
    return this.#first;
  }

  add(item: Item): void {
    this.#link(item, this.#last, undefined);
  }

  /** Puts an item back, before all others. */
  addFirst(item: Item): void {
    this.#link(item, undefined, this.#first);
  }

  remove(item: Item): void {
    if (!item.isQueued) return;
    const { previous, next } = item;
    if (previous) previous.next = next;
    else this.#first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
    item.isQueued = false;
    item.previous = item.next = undefined;
    this.#size--;
  }

  /** The first items in their order, at most so many. */
  front(most: number): Item[] {
    const found: Item[] = [];
    for (let item = this.#first; item && found.length < most; item = item.next) found.push(item);
    return found;
  }

  #link(item: Item, previous: Item | undefined, next: Item | undefined): void {
    Object.assign(item, { isQueued: true, previous, next });
    if (previous) previous.next = item;
    else this.#first = item;
    if (next) next.previous = item;
    else this.#last = item;
    this.#size++;
  }
}
