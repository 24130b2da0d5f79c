import { SluiceError } from "./errors.ts";

/** Most ranges of a bounded index set. */
export const maxBoundedRanges = 1024;

/** Whole numbers from `first` to `last`, both included. */
export interface IndexRange {
  first: number;
  last: number;
}

/**
 * Reads an index set such as `1,3-5,7`, the text form that Slurm, Kubernetes and IBM fleets share.
 * Ranges come back sorted and merged.
 *
 * @throws SluiceError `USAGE` if the text is not an index set.
 * @example
 * parseIndexSet("7,1,3-5"); // [{first: 1, last: 1}, {first: 3, last: 5}, {first: 7, last: 7}]
 */
export function parseIndexSet(text: string): IndexRange[] {
  const ranges = text.split(",").map((part) => {
    const match = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(part);
    const first = Number(match?.[1]);
    const last = Number(match?.[2] ?? match?.[1]);
    if (!match || last < first || !Number.isSafeInteger(last)) {
      throw new SluiceError("USAGE", `"${text}" is not an index set such as 1,3-5,7`);
    }
    return { first, last };
  });
  return mergeRanges(ranges);
}

/** Writes ranges in the form that `parseIndexSet` reads. */
export function formatIndexSet(ranges: readonly IndexRange[]): string {
  return ranges
    .map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`))
    .join(",");
}

/** The ranges that hold exactly these numbers, in ascending order. */
export function rangesOf(numbers: Iterable<number>): IndexRange[] {
  return mergeRanges([...numbers].map((number) => ({ first: number, last: number })));
}

/** Every number of the ranges, in order. */
export function* eachIndex(ranges: readonly IndexRange[]): Generator<number> {
  for (const { first, last } of ranges) {
    for (let index = first; index <= last; index++) yield index;
  }
}

/**
 * The numbers of an index set, in order.
 *
 * @throws SluiceError `USAGE` if the text is not an index set.
 */
export function indexesIn(text: string): Generator<number> {
  return eachIndex(parseIndexSet(text));
}

/** The index set of exactly these numbers; empty for none. */
export function indexSetOf(numbers: Iterable<number>): string {
  return formatIndexSet(rangesOf(numbers));
}

/**
 * An index set as a text of limited size, for messages: with more than `maxBoundedRanges`
 * ranges, it has all numbers from the first to the last.
 */
export function boundedIndexSet(ranges: readonly IndexRange[]): string {
  const [first, last] = [ranges[0], ranges.at(-1)];
  if (ranges.length <= maxBoundedRanges || !first || !last) return formatIndexSet(ranges);
  return formatIndexSet([{ first: first.first, last: last.last }]);
}

function mergeRanges(ranges: IndexRange[]): IndexRange[] {
  const merged: IndexRange[] = [];
  for (const range of ranges.toSorted((a, b) => a.first - b.first)) {
    const previous = merged.at(-1);
    if (previous && range.first <= previous.last + 1) {
      previous.last = Math.max(previous.last, range.last);
    } else {
      merged.push({ ...range });
    }
  }
  return merged;
}
