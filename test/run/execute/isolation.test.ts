import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { Isolation, type RowTry } from "../../../src/run/execute/isolation.ts";
import type { RowWork } from "../../../src/run/execute/row-work.ts";

/** A row as far as the isolation looks at it, with its requests. */
function row(index: number, requests = 1): RowTry[] {
  const work = { index, kills: 0, attempt: {} } as RowWork;
  return Array.from({ length: requests }, (_, at) => ({ work, at, request: {} as never }));
}

const died = new SluiceError("ENGINE_DIED", "exit code 3");

const rowsOf = (group: readonly RowTry[] | undefined) => group?.map(({ work }) => work.index);

/** Asks group after group until all is settled; groups with one of `killers` die. */
function search(isolation: Isolation, killers: readonly number[]) {
  const groups: number[][] = [];
  const givenUp: number[] = [];
  while (isolation.isActive) {
    const group = isolation.nextGroup(([rowTry], error) => {
      givenUp.push(rowTry!.work.index);
      expect(error.code).toBe("ROW_KILLS_ENGINE");
      expect(error.message).toContain("exit code 3");
    });
    if (!group) continue;
    groups.push(group.map(({ work }) => work.index));
    const dies = group.some(({ work }) => killers.includes(work.index));
    for (const rowTry of group) dies ? isolation.fell(rowTry, died) : isolation.resolved(rowTry);
  }
  return { groups, givenUp };
}

describe("Isolation", () => {
  it("halves the rows that died together until the guilty one is alone", () => {
    const isolation = new Isolation();
    for (const index of [0, 1, 2, 3]) isolation.fell(row(index)[0]!, died);
    const { groups, givenUp } = search(isolation, [1]);
    expect(givenUp).toEqual([1]);
    expect(groups).toEqual([[0, 1], [0], [1], [1], [1], [2, 3]]);
  });

  it("counts a death with one row in flight as one of its own", () => {
    const isolation = new Isolation();
    isolation.fell(row(5)[0]!, died);
    const { groups, givenUp } = search(isolation, [5]);
    expect(groups).toHaveLength(limits.maxRowKills - 1);
    expect(givenUp).toEqual([5]);
  });

  it("clears a row that kills no more", () => {
    const isolation = new Isolation();
    isolation.fell(row(5)[0]!, died);
    expect(search(isolation, [])).toEqual({ groups: [[5]], givenUp: [] });
  });

  it("keeps the requests of a row together", () => {
    const isolation = new Isolation();
    for (const rowTry of [...row(0, 3), ...row(1, 2)]) isolation.fell(rowTry, died);
    const { groups, givenUp } = search(isolation, [0]);
    expect(groups).toEqual([
      [0, 0, 0],
      [0, 0, 0],
      [0, 0, 0],
      [1, 1],
    ]);
    expect(givenUp).toEqual([0]);
  });

  it("is busy until every request of the group came back", () => {
    const isolation = new Isolation();
    const rows = [row(0), row(1), row(2)];
    isolation.suspect(rows, 2);
    const group = isolation.nextGroup(() => {});
    expect(rowsOf(group)).toEqual([0, 1]);
    isolation.resolved(rows[0]![0]!);
    // One that is not of the group changes nothing.
    isolation.resolved(rows[2]![0]!);
    expect(isolation.isBusy).toBe(true);
    isolation.resolved(rows[1]![0]!);
    expect([isolation.isBusy, isolation.isActive]).toEqual([false, true]);
    expect(rowsOf(isolation.nextGroup(() => {}))).toEqual([2]);
  });

  it("forgets the rows of an attempt that was given up, and those only", () => {
    const isolation = new Isolation();
    const [mine, other] = [row(0), row(1)];
    isolation.suspect([mine, other], 2);
    isolation.nextGroup(() => {});
    isolation.forget(mine[0]!.work.attempt);
    expect(isolation.isBusy).toBe(true);
    isolation.forget(other[0]!.work.attempt);
    expect(isolation.isBusy).toBe(false);
    expect(isolation.nextGroup(() => {})).toBeUndefined();
  });

  it("forgets rows that fell and were not asked again", () => {
    const isolation = new Isolation();
    const [mine, other] = [row(0), row(1)];
    for (const [rowTry] of [mine, other]) isolation.fell(rowTry!, died);
    isolation.forget(mine[0]!.work.attempt);
    expect(search(isolation, [])).toEqual({ groups: [[1]], givenUp: [] });
  });

  it("is over once the run stops", () => {
    const isolation = new Isolation();
    const rows = [row(0), row(1), row(2)];
    isolation.suspect(rows, 1);
    isolation.nextGroup(() => {});
    isolation.fell(rows[1]![0]!, died);
    isolation.clear();
    expect([isolation.isBusy, isolation.isActive]).toEqual([false, false]);
  });
});
