import { boundedIndexSet, formatIndexSet, rangesOf } from "../../foundation/index-set.ts";
import type { UpcomingRows } from "../attempt/attempt.ts";

/** Most rows that a worker announces at once before sending them. */
export const maxAnnouncedRows = 1024;

/** Reports rows that may be sent, as an index set: all of them, or additional ones. */
export type SayRows = (rows: string, isAll: boolean) => void;

/**
 * Announces the rows of an attempt before they are sent: if the process dies, one of them may have
 * ended it. Slow rows are announced one by one and fast rows many at once, so that it costs little.
 * At intervals, the announced rows without an outcome are reported again.
 *
 * @example
 * const reach = new RowReach([], (rows, isAll) => channel.send({ type: "task-asking", … }));
 * reach.pass(source); // says at least the first row to come, before it is asked
 */
export class RowReach {
  readonly #say: SayRows;
  /** Announced rows without an outcome at the last check. */
  #rows: number[];
  #step = 1;
  /** Announced rows that were not sent yet. */
  #ahead = 0;
  #isChanged = false;

  /** @param suspects rows that are suspected from the start. */
  constructor(suspects: Iterable<number>, say: SayRows) {
    this.#say = say;
    this.#rows = [...suspects];
    if (this.#rows.length > 0) say(textOf(this.#rows), true);
  }

  /** The first of the next rows is about to be sent. */
  pass(rows: UpcomingRows): void {
    if (this.#ahead > 0) {
      this.#ahead--;
      return;
    }
    const announced = rows.upcoming(this.#step);
    this.#step = Math.min(this.#step * 2, maxAnnouncedRows);
    this.#ahead = announced.length - 1;
    this.#isChanged = true;
    for (const index of announced) this.#rows.push(index);
    this.#say(textOf(announced), false);
  }

  /** After some time: reports the remaining announced rows, and continues row by row. */
  restate(isOpen: (row: number) => boolean): void {
    this.#step = 1;
    const rows = this.#rows.filter(isOpen);
    if (rows.length === this.#rows.length && !this.#isChanged) return;
    this.#rows = rows;
    this.#isChanged = false;
    this.#say(textOf(rows), true);
  }
}

function textOf(rows: readonly number[]): string {
  const [first, last] = [rows[0], rows.at(-1)];
  // Almost every announcement is one row; sorting would cost more than the rest.
  const isRun = rows.every((row, at) => row === first! + at);
  if (isRun && first !== undefined && last !== undefined) return formatIndexSet([{ first, last }]);
  return boundedIndexSet(rangesOf(rows));
}
