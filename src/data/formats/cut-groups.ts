import type { CutRule, SliceRange } from "./format.ts";
import { rowsOfRange } from "./range-cutter.ts";

/** Rows of consecutive row groups, or of other blocks at which a file can be cut. */
export interface GroupRange<Group> {
  groups: Group[];
  /** Rows of the first group that come before the range. */
  skipRows: number;
  rows: number;
  /** Number in the file, from 1, of the first row of the first group. */
  firstRow: number;
}

/** A row group with up to this many times the requested rows stays whole. */
const maxGroupShare = 4;

/**
 * Cuts a file's rows into ranges. With `atOwnBorders`, a range ends where a row group ends; only
 * large groups are divided, into equal parts, because each part has to read its whole group.
 */
export function cutGroups<Group extends { rows: number }>(
  groups: readonly Group[],
  rule: CutRule,
): GroupRange<Group>[] {
  const cutter = new GroupCutter<Group>();
  let firstRow = 1;
  for (const group of groups) {
    const isDivided = rule.atOwnBorders === true && group.rows > maxGroupShare * rule.everyRows;
    if (isDivided) cutter.close();
    for (let taken = 0; taken < group.rows; ) {
      const wanted = rowsOfRange(rule, cutter.ranges.length);
      const rest = group.rows - taken;
      const equal = Math.ceil(group.rows / Math.ceil(group.rows / rule.everyRows));
      const most = isDivided ? equal : rule.atOwnBorders ? rest : wanted - cutter.openRows;
      taken += cutter.take(group, taken, Math.min(rest, most), firstRow);
      if (isDivided || cutter.openRows >= wanted) cutter.close();
    }
    firstRow += group.rows;
  }
  cutter.close();
  return cutter.ranges;
}

/** The plan's entry for a range whose groups follow one another in the file. */
export function sliceOf(
  { groups, skipRows, rows, firstRow }: GroupRange<{ start: number; end: number }>,
  sha256: string,
): SliceRange {
  return {
    start: groups[0]!.start,
    end: groups.at(-1)!.end,
    rows,
    ...(skipRows > 0 && { skipRows }),
    firstLine: firstRow,
    sha256,
  };
}

class GroupCutter<Group> {
  readonly ranges: GroupRange<Group>[] = [];
  #open: GroupRange<Group> | undefined;

  get openRows(): number {
    return this.#open?.rows ?? 0;
  }

  /** Adds rows to the open range, or to a new range that starts after `taken` rows of the group. */
  take(group: Group, taken: number, rows: number, firstRow: number): number {
    this.#open ??= { groups: [], skipRows: taken, rows: 0, firstRow };
    this.#open.groups.push(group);
    this.#open.rows += rows;
    return rows;
  }

  close(): void {
    if (this.#open) this.ranges.push(this.#open);
    this.#open = undefined;
  }
}
