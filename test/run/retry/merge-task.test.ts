import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import type { Commit } from "../../../src/run/attempt/commit.ts";
import { fileRecord } from "../../../src/run/directory/file-record.ts";
import { HashedFile } from "../../../src/run/output/hashed-file.ts";
import type { Task } from "../../../src/run/plan/plan.ts";
import { mergeTask } from "../../../src/run/retry/merge-task.ts";
import { errorOf, linesOf } from "../run-fixture.ts";

interface Situation {
  task?: Partial<Task>;
  results: string[];
  letters?: number[];
  /** What the retry asked, answered and failed at. */
  asked?: string;
  answers?: string[];
  failedAgain?: number[];
  /** Failed rows have lines too: one for each in `results`, and in `answers` for each asked. */
  resultsHoldFailed?: boolean;
  /** Rows with another number of lines than one, before the retry and in it. */
  counts?: [row: number, lines: number][];
  countsAgain?: [row: number, lines: number][];
  /** A file that changes once its checksum is known. */
  changed?: { path: string; text: string };
}

async function merge(situation: Situation) {
  const { task, results, letters, asked, answers, failedAgain } = situation;
  const storage = memoryStorage();
  const store = async (path: string, lines: string[]) => {
    const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""));
    await storage.replace(path, bytes);
    return fileRecord(path, bytes);
  };
  const lettersOf = (path: string, rows: number[] | undefined, code: string) =>
    rows
      ? store(
          path,
          rows.map((index) => JSON.stringify({ index, code })),
        )
      : null;
  const countsOf = async (path: string, counts: Situation["counts"]) =>
    counts && { lineCounts: await store(path, [JSON.stringify(counts)]) };
  const planned: Task = { task: 1, firstRow: 10, rows: 4, slices: [], ...task };
  const commit = {
    part: await store("again", answers ?? []),
    deadLetters: await lettersOf("again-letters", failedAgain, "again"),
    ...(await countsOf("again-counts", situation.countsAgain)),
  } as Commit;
  const lettersBefore = await lettersOf("letters", letters, "before");
  const countsBefore = await countsOf("counts", situation.counts);
  const { changed } = situation;
  if (changed) await storage.replace(changed.path, Buffer.from(changed.text));
  const sink = await HashedFile.open(storage, "merged");
  async function* lines() {
    yield* results;
  }
  const source = {
    task: planned,
    results: lines(),
    deadLetters: lettersBefore,
    ...countsBefore,
    resultsHoldFailed: situation.resultsHoldFailed ?? false,
    retried: { task: { ...planned, only: asked ?? "999999" }, commit },
  };
  const merged = await mergeTask(storage, source, sink, {
    deadLetters: "merged-letters",
    lineCounts: "merged-counts",
  });
  const { bytes } = await sink.close();
  const text = Buffer.from(await storage.read("merged")).toString();
  expect(bytes).toBe(text.length);
  const left = merged.deadLetters && Buffer.from(await storage.read("merged-letters")).toString();
  const counts = merged.lineCounts && Buffer.from(await storage.read("merged-counts")).toString();
  return {
    ...merged,
    lines: text.split("\n").slice(0, -1),
    left: left && linesOf(left),
    counts: counts && (JSON.parse(counts) as unknown),
  };
}

describe("mergeTask", () => {
  it("puts answers of failed rows between those that stood", async () => {
    const merged = await merge({
      results: ["b10", "b13"],
      letters: [11, 12],
      asked: "11-12",
      answers: ["a11", "a12"],
    });
    expect(merged.lines).toEqual(["b10", "a11", "a12", "b13"]);
    expect(merged).toMatchObject({ results: 4, failed: 0, recovered: 2, deadLetters: null });
  });

  it("keeps a line for each row where results hold those that failed", async () => {
    const merged = await merge({
      results: ["b10", "f11", "f12", "f13"],
      letters: [11, 12, 13],
      asked: "10-12",
      answers: ["f10", "a11", "g12"],
      failedAgain: [10, 12],
      resultsHoldFailed: true,
    });
    expect(merged.lines).toEqual(["b10", "a11", "g12", "f13"]);
    expect(merged).toMatchObject({ results: 4, failed: 2, recovered: 1 });
    expect(merged.left).toMatchObject([
      { index: 12, code: "again" },
      { index: 13, code: "before" },
    ]);
  });

  it("keeps the newer dead letter of two, and that of a row not asked", async () => {
    const merged = await merge({
      results: ["b10"],
      letters: [11, 12, 13],
      asked: "11-12",
      answers: ["a11"],
      failedAgain: [12],
    });
    expect(merged.lines).toEqual(["b10", "a11"]);
    expect(merged.left).toEqual([
      { index: 12, code: "again" },
      { index: 13, code: "before" },
    ]);
  });

  it("keeps an answer whose row was asked again and failed", async () => {
    const merged = await merge({
      results: ["b10", "b11", "b12", "b13"],
      asked: "11,13",
      answers: ["a13"],
      failedAgain: [11],
    });
    expect(merged.lines).toEqual(["b10", "b11", "b12", "a13"]);
    expect(merged).toMatchObject({ failed: 0, recovered: 0, deadLetters: null });
  });

  it("knows only the rows that were planned", async () => {
    const merged = await merge({
      task: { only: "10,12", onlyRows: 2 },
      results: ["b12"],
      letters: [10],
      asked: "10",
      answers: ["a10"],
    });
    expect(merged.lines).toEqual(["a10", "b12"]);
  });

  it("keeps the lines of rows together that became several, or none", async () => {
    const merged = await merge({
      results: ["b10.1", "b10.2", "b13.1", "b13.2", "b13.3"],
      letters: [12],
      counts: [
        [10, 2],
        [11, 0],
        [13, 3],
      ],
      asked: "10-12",
      answers: ["a11.1", "a11.2", "a12"],
      countsAgain: [
        [10, 0],
        [11, 2],
      ],
    });
    expect(merged.lines).toEqual(["a11.1", "a11.2", "a12", "b13.1", "b13.2", "b13.3"]);
    expect(merged).toMatchObject({ results: 6, failed: 0, recovered: 1, filtered: 1 });
    expect(merged.counts).toEqual([
      [10, 0],
      [11, 2],
      [13, 3],
    ]);
  });

  it("changes nothing where nothing was asked", async () => {
    const merged = await merge({ results: ["b10", "b11", "b13"], letters: [12] });
    expect(merged.lines).toEqual(["b10", "b11", "b13"]);
    expect(merged.left).toEqual([{ index: 12, code: "before" }]);
  });

  it.each([
    ["again", "x11\na12\n"],
    ["again", "a11\n"],
    ["again", "a11\na12\na13\n"],
    ["again-letters", '{"index":12,"co'],
    ["letters", '{"index":11,"code":"before"}\n'],
    ["counts", "[[10,1],[13,1]]\n"],
    ["again-counts", "[[11,2]]\n"],
  ])("refuses a file that is not as it was recorded: %s", async (path, text) => {
    const merging = merge({
      results: ["b10.1", "b10.2"],
      letters: [11, 12],
      counts: [
        [10, 2],
        [13, 0],
      ],
      asked: "11-13",
      answers: ["a11.1", "a11.2"],
      failedAgain: [12],
      countsAgain: [
        [11, 2],
        [13, 0],
      ],
      changed: { path, text },
    });
    const { code, place } = await errorOf(merging);
    expect([code, place.file]).toEqual(["RUN_DAMAGED", path]);
  });

  it("refuses fewer lines of results than rows, which have no other checksum", async () => {
    const merging = merge({ results: ["b10", "b11"], letters: [12] });
    expect((await errorOf(merging)).code).toBe("RUN_DAMAGED");
  });
});
