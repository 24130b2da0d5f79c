/** A member of one `WaitingQueue` at a time; the queue sets everything except its priority. */
export interface Waiting<Item> {
  /** Higher ones go first; equal ones in the order of arrival. */
  readonly priority: number;
  line?: Line<Item> | undefined;
  previous?: Item | undefined;
  next?: Item | undefined;
}

/** Those of one priority. */
interface Line<Item> {
  readonly priority: number;
  first: Item | undefined;
  last: Item | undefined;
}

/**
 * A queue by priority in which joining and leaving have a constant cost, also in the middle.
 * Members are linked through their own fields, so that nothing is copied or searched.
 *
 * @example
 * const queue = new WaitingQueue<Pending>();
 * queue.add(pending);
 * const [next] = queue.front(1);
 */
export class WaitingQueue<Item extends Waiting<Item>> {
  /** One for each waiting priority, the highest first; none is empty. */
  readonly #lines: Line<Item>[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(item: Item): void {
    const line = this.#lineOf(item);
    this.#link(item, line, line.last, undefined);
  }

  /** Puts an item back, before all others of its priority. */
  addFirst(item: Item): void {
    const line = this.#lineOf(item);
    this.#link(item, line, undefined, line.first);
  }

  /** @returns whether it waited here. */
  remove(item: Item): boolean {
    const { line, previous, next } = item;
    if (line === undefined) return false;
    if (previous) previous.next = next;
    else line.first = next;
    if (next) next.previous = previous;
    else line.last = previous;
    item.line = item.previous = item.next = undefined;
    this.#size--;
    if (line.first === undefined) this.#lines.splice(this.#lines.indexOf(line), 1);
    return true;
  }

  /** The first items in their order, at most so many. */
  front(most: number): Item[] {
    const found: Item[] = [];
    for (const { first } of this.#lines) {
      for (let item = first; item && found.length < most; item = item.next) found.push(item);
    }
    return found;
  }

  /** The first of each priority: the longest waiting one is among them. */
  firsts(): Item[] {
    return this.#lines.map(({ first }) => first!);
  }

  #lineOf({ priority }: Item): Line<Item> {
    const at = this.#lines.findIndex((line) => line.priority <= priority);
    const found = this.#lines[at];
    if (found?.priority === priority) return found;
    const line = { priority, first: undefined, last: undefined };
    this.#lines.splice(at < 0 ? this.#lines.length : at, 0, line);
    return line;
  }

  #link(item: Item, line: Line<Item>, previous: Item | undefined, next: Item | undefined): void {
    item.line = line;
    item.previous = previous;
    item.next = next;
    if (previous) previous.next = item;
    else line.first = item;
    if (next) next.previous = item;
    else line.last = item;
    this.#size++;
  }
}
