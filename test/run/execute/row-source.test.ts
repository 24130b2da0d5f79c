import { describe, expect, it } from "vitest";
import type { InputRow } from "../../../src/data/row.ts";
import { limits } from "../../../src/foundation/limits.ts";
import type { TaskAttempt } from "../../../src/run/attempt/attempt.ts";
import { maxReadAheadBytes, RowSource } from "../../../src/run/execute/row-source.ts";
import { settled } from "../scripted-engine.ts";

/** A source over batches of rows; counts what was read and how often it told of a change. */
function sourceOf(batches: () => AsyncGenerator<InputRow[]>) {
  const seen = { changes: 0 };
  const attempt = {
    readOpenRows: batches,
    noteTaken() {},
    rowsTogether: 1,
  } as unknown as TaskAttempt;
  const source = new RowSource(attempt, () => seen.changes++);
  return { source, seen };
}

const rowsFrom = (first: number, count: number, chars = 5): InputRow[] =>
  Array.from({ length: count }, (_, at) => ({
    index: first + at,
    file: "/in",
    line: 1,
    raw: "x".repeat(chars),
  }));

describe("RowSource", () => {
  it("gives rows in order, and tells when they came and when there are no more", async () => {
    const { source, seen } = sourceOf(async function* () {
      yield rowsFrom(0, 2);
      yield rowsFrom(2, 1);
    });
    expect(source.take()).toBeUndefined();
    expect(source.isExhausted).toBe(false);
    await settled();
    expect(seen.changes).toBe(3);
    expect([0, 1, 2, 3].map(() => source.take()?.index)).toEqual([0, 1, 2, undefined]);
    expect(source.isExhausted).toBe(true);
  });

  it.each([
    ["rows", 250, 5, limits.maxReadAheadRows + 250],
    ["bytes", 10, maxReadAheadBytes / 40, 50],
  ])(
    "reads ahead only so many %s, and goes on as they are taken",
    async (_n, size, chars, most) => {
      const { source } = sourceOf(async function* () {
        for (let first = 0; ; first += size) yield rowsFrom(first, size, chars);
      });
      await settled();
      const { buffered } = source;
      expect(buffered).toBeGreaterThan(size);
      expect(buffered).toBeLessThanOrEqual(most);
      for (let row = 0; row < buffered; row++) expect(source.take()?.index).toBe(row);
      await settled();
      expect(source.take()?.index).toBe(buffered);
      await source.close();
    },
  );

  it("keeps why it cannot be read, after the rows that it gave", async () => {
    const { source, seen } = sourceOf(async function* () {
      yield rowsFrom(0, 1);
      throw new Error("the disk is gone");
    });
    await settled();
    expect(source.error?.message).toContain("the disk is gone");
    expect(source.take()?.index).toBe(0);
    expect(seen.changes).toBe(2);
  });

  it("gives the rows of a group at once, as soon as all that are open are at hand", async () => {
    const batches = [rowsFrom(0, 2), rowsFrom(2, 3), rowsFrom(7, 1), rowsFrom(9, 4)];
    const source = new RowSource(
      {
        ...{ noteTaken() {}, rowsTogether: 4 },
        async *readOpenRows() {
          yield* batches;
        },
      } as unknown as TaskAttempt,
      () => {},
    );
    expect(source.takeTogether()).toBeUndefined();
    expect(source.isExhausted).toBe(false);
    await settled();
    const groups = [1, 2, 3, 4].map(() => source.takeTogether()?.map(({ index }) => index));
    expect(groups).toEqual([[0, 1, 2, 3], [4, 7], [9, 10, 11], [12]]);
    expect([source.takeTogether(), source.isExhausted]).toEqual([undefined, true]);
  });

  it("lets go of its input when it closes", async () => {
    let isOpen = true;
    const { source, seen } = sourceOf(async function* () {
      try {
        for (;;) yield rowsFrom(0, 5000);
      } finally {
        isOpen = false;
      }
    });
    await settled();
    const before = seen.changes;
    await source.close();
    await settled();
    expect([isOpen, source.isOpen, source.take(), seen.changes]).toEqual([
      false,
      false,
      undefined,
      before,
    ]);
  });
});
