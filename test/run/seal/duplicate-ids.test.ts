import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { hashOfId, sortedIds } from "../../../src/run/attempt/id-hashes.ts";
import { findDuplicateIds } from "../../../src/run/seal/duplicate-ids.ts";

/** Files of ids as tasks leave them; rows are numbered through. */
async function stored(tasks: readonly (readonly (string | number)[])[]) {
  const storage = memoryStorage();
  const files = [];
  let row = 0;
  for (const [task, ids] of tasks.entries()) {
    const bytes = sortedIds(ids.flatMap((id) => [hashOfId(id), BigInt(row++)]));
    const path = `${task}.bin`;
    await storage.replace(path, bytes);
    files.push({ path, sha256: "", bytes: bytes.length });
  }
  return { storage, files };
}

const manyTasks = Array.from({ length: 20 }, (_, task) =>
  Array.from({ length: 300 }, (_, row) => `id ${task * 300 + row}`),
);

describe("findDuplicateIds", () => {
  it("finds none where there are none", async () => {
    const { storage, files } = await stored(manyTasks);
    expect(await findDuplicateIds(storage, files)).toEqual({ count: 0, examples: [] });
  });

  it.each([2_000_000, 1000, 10])(
    "finds those of other tasks, %i at once in memory",
    async (max) => {
      const tasks = [...manyTasks, ["id 17", "new", "id 5999", "id 0"]];
      const { storage, files } = await stored(tasks);
      const { count, examples } = await findDuplicateIds(storage, files, max);
      expect(count).toBe(3);
      expect(examples.map(({ rows }) => rows).toSorted(([a], [b]) => a - b)).toEqual([
        [0, 6003],
        [17, 6000],
        [5999, 6002],
      ]);
    },
  );

  it("counts each further row of an id, and names ten of them at most", async () => {
    const { storage, files } = await stored([
      ["a", "a", "a"],
      ["a", ...Array.from({ length: 30 }, (_, n) => n)],
      Array.from({ length: 30 }, (_, n) => n),
    ]);
    const { count, examples } = await findDuplicateIds(storage, files, 7);
    expect(count).toBe(3 + 30);
    expect(examples).toHaveLength(10);
  });

  it("tells a number from a text", async () => {
    const { storage, files } = await stored([[1, "1"]]);
    expect((await findDuplicateIds(storage, files)).count).toBe(0);
  });
});
