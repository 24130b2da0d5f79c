import { formatIndexSet, type IndexRange, rangesOf } from "../../foundation/index-set.ts";
import type { UpcomingRows } from "../attempt/attempt.ts";

/** Rows that a worker may announce at once before it asks them. */
export const maxAnnouncedRows = 1024;

/** Ranges of rows in one such announcement; beyond it, all between the first and the last. */
export const maxAnnouncedRanges = 1024;

/** Tells rows that may be asked, as an index set: all of them, or more of them. */
export type SayRows = (rows: string, isAll: boolean) => void;

/**
 * Says which rows of an attempt may be with the engine, always before they are: when the process is
 * gone, one of them may have ended it. Rows are announced one by one where they come slowly and
 * ever more at once where they come fast, so that it costs little; now and then those that have no
 * outcome yet are said anew.
 *
 * @example
 * const reach = new RowReach([], (rows, isAll) => channel.send({ type: "task-asking", … }));
 * reach.pass(source); // says at least the first row to come, before it is asked
 */
export class RowReach {
  readonly #say: SayRows;
  /** Announced, and without an outcome when they were last looked at. */
  #rows: number[];
  #step = 1;
  /** Announced rows that are still to pass. */
  #ahead = 0;
  #isChanged = false;

  /** @param suspects rows that are suspected from the start, whenever they will be asked. */
  constructor(suspects: Iterable<number>, say: SayRows) {
    this.#say = say;
    this.#rows = [...suspects];
    if (this.#rows.length > 0) say(textOf(this.#rows), true);
  }

  /** The first of the rows to come is about to be asked. */
  pass(rows: UpcomingRows): void {
    if (this.#ahead > 0) {
      this.#ahead--;
      return;
    }
    const announced = rows.upcoming(this.#step).map(({ index }) => index);
    this.#step = Math.min(this.#step * 2, maxAnnouncedRows);
    this.#ahead = announced.length - 1;
    this.#isChanged = true;
    for (const index of announced) this.#rows.push(index);
    this.#say(textOf(announced), false);
  }

  /** Some time went by: says what is left of what was announced, and goes on row by row. */
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
  // What almost every announcement is; sorting it would cost more than the rest of it.
  const isRun = rows.every((row, at) => row === first! + at);
  if (isRun && first !== undefined && last !== undefined) return formatIndexSet([{ first, last }]);
  return boundedIndexSet(rangesOf(rows));
}

/**
 * An index set as text that stays small, though many rows wait for another try: beyond
 * `maxAnnouncedRanges`, all rows between the first and the last are in it.
 */
export function boundedIndexSet(ranges: readonly IndexRange[]): string {
  const [first, last] = [ranges[0], ranges.at(-1)];
  if (ranges.length <= maxAnnouncedRanges || !first || !last) return formatIndexSet(ranges);
  return formatIndexSet([{ first: first.first, last: last.last }]);
}
