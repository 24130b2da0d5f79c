import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { InputFile } from "../../src/data/inputs.ts";
import type { OpenFile } from "../../src/data/open-files.ts";
import type { InputRow } from "../../src/data/row.ts";
import { estimateRows } from "../../src/data/row-estimate.ts";
import { readRows, type ScanOptions, scanSlices, type TaskSlices } from "../../src/data/slices.ts";
import { memoryStorage } from "../../src/data/storage/memory.ts";

const maxLineBytes = 1_000_000;

interface Files {
  files: InputFile[];
  openFile: OpenFile;
  /** Paths opened, and those closed again. */
  opened: string[];
  closed: string[];
}

async function filesOf(contents: Record<string, string>, id?: string): Promise<Files> {
  const storage = memoryStorage();
  const [opened, closed]: [string[], string[]] = [[], []];
  const files: InputFile[] = [];
  for (const [path, content] of Object.entries(contents)) {
    await storage.replace(path, Buffer.from(content));
    const format = path.slice(path.lastIndexOf(".") + 1);
    const bytes = Buffer.byteLength(content);
    files.push({ path, bytes, modifiedMs: 0, format, source: 0, ...(id && { id }) });
  }
  const openFile: OpenFile = async (path) => {
    opened.push(path);
    const reader = await storage.open(path);
    return {
      ...reader,
      close: async () => {
        closed.push(path);
      },
    };
  };
  return { files, openFile, opened, closed };
}

type Options = Omit<ScanOptions, "maxLineBytes" | "openFile">;

async function tasksOf({ files, openFile }: Files, options: Options): Promise<TaskSlices[]> {
  const tasks: TaskSlices[] = [];
  const scan = scanSlices(files, { maxLineBytes, openFile, ...options });
  for await (const task of scan) tasks.push(task);
  return tasks;
}

async function rowsOf({ openFile }: Files, tasks: readonly TaskSlices[]): Promise<InputRow[]> {
  const rows: InputRow[] = [];
  for (const { slices, firstRow } of tasks) {
    for await (const batch of readRows(slices, firstRow, openFile, { maxLineBytes })) {
      rows.push(...batch);
    }
  }
  return rows;
}

const lines = (from: number, count: number) =>
  Array.from({ length: count }, (_, at) => `{"n":${from + at}}\n`).join("");

describe("scanSlices", () => {
  it("gives each task its rows, over the borders of files", async () => {
    const input = await filesOf(
      { "a.jsonl": lines(0, 5), "none.jsonl": "\n", "b.json": '{"n":5}', "c.jsonl": lines(6, 2) },
      "key",
    );
    const tasks = await tasksOf(input, { rowsPerTask: 3 });
    expect(
      tasks.map(({ firstRow, rows, slices }) => [
        firstRow,
        rows,
        slices.map(({ file, rows, start, firstLine }) => [file, rows, start, firstLine]),
      ]),
    ).toEqual([
      [0, 3, [["a.jsonl", 3, 0, 1]]],
      [
        3,
        3,
        [
          ["a.jsonl", 2, 24, 4],
          ["b.json", 1, 0, 1],
        ],
      ],
      [6, 2, [["c.jsonl", 2, 0, 1]]],
    ]);
    expect(tasks[0]?.slices[0]).toMatchObject({ id: "key", format: "jsonl" });
    const rows = await rowsOf(input, tasks);
    expect(rows.map((row) => row.value?.n)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(input.closed.length).toBe(input.opened.length);
  });

  it("makes tasks of ten slices of files with one object", async () => {
    const contents = Array.from({ length: 95 }, (_, n) => [`${n}.json`, `{"n":${n}}`]);
    const input = await filesOf(Object.fromEntries(contents));
    const tasks = await tasksOf(input, { rowsPerTask: 10 });
    expect(tasks.map((task) => task.slices.length)).toEqual([...Array(9).fill(10), 5]);
  });

  it("tells how far it is", async () => {
    const input = await filesOf({ "a.jsonl": lines(0, 5), "b.jsonl": lines(5, 5) });
    const seen: number[][] = [];
    await tasksOf(input, { rowsPerTask: 3, onProgress: (...progress) => seen.push(progress) });
    expect(seen).toEqual([
      [0, 40],
      [5, 80],
    ]);
  });

  it("leaves files after the limit alone, and closes what it opened ahead", async () => {
    const contents = Array.from({ length: 40 }, (_, file) => [`${file}.jsonl`, lines(file, 1)]);
    const input = await filesOf(Object.fromEntries(contents));
    expect((await tasksOf(input, { rowsPerTask: 2, limit: 5 })).length).toBe(3);
    expect(input.opened.length).toBeLessThan(20);
    expect(input.closed.toSorted()).toEqual(input.opened.toSorted());
  });

  it("names a file that is gone", async () => {
    const input = await filesOf({ "a.jsonl": lines(0, 2) });
    const gone = { ...input, openFile: memoryStorage().open.bind(memoryStorage()) };
    const error = (code: string) => ({ code, place: { file: "a.jsonl" } });
    const tasks = await tasksOf(input, { rowsPerTask: 3 });
    await expect(tasksOf(gone, { rowsPerTask: 3 })).rejects.toMatchObject(
      error("INPUT_UNREADABLE"),
    );
    await expect(rowsOf(gone, tasks)).rejects.toMatchObject(error("INPUT_CHANGED"));
  });

  it("gives every row once and in order, for all files, tasks and limits", async () => {
    const file = fc.record({
      rows: fc.integer({ min: 0, max: 12 }),
      format: fc.constantFrom("jsonl", "json"),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(file, { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 1, max: 7 }),
        fc.option(fc.integer({ min: 1, max: 40 }), { nil: undefined }),
        async (specs, rowsPerTask, limit) => {
          const values: { n: number }[] = [];
          const contents = specs.map(({ rows, format }, at) => {
            const own = Array.from({ length: rows }, (_, row) => ({ n: values.length + row }));
            values.push(...own);
            const text = own.map((value) => `${JSON.stringify(value)}\n`).join("");
            return [`${at}.${format}`, format === "json" ? JSON.stringify(own, null, 1) : text];
          });
          const input = await filesOf(Object.fromEntries(contents));
          const tasks = await tasksOf(input, { rowsPerTask, ...(limit && { limit }) });
          const expected = values.slice(0, limit);
          const rows = await rowsOf(input, tasks);
          expect(rows.map((row) => row.value)).toEqual(expected);
          expect(rows.map((row) => row.index)).toEqual(expected.map((_, index) => index));
          const sizes = tasks.map((task) => task.rows);
          expect(sizes.slice(0, -1).every((size) => size === rowsPerTask)).toBe(true);
          expect(tasks.every((task) => task.firstRow % rowsPerTask === 0)).toBe(true);
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("estimateRows", () => {
  it("is exact for files it can read whole", async () => {
    const { files, openFile } = await filesOf({
      "a.jsonl": lines(0, 5),
      "b.json": '{"n":5}',
      "c.json": '[{"n":6},{"n":7}]',
    });
    expect(await estimateRows(files, openFile)).toBe(8);
    expect(await estimateRows([], openFile)).toBe(0);
  });

  it("comes near for long files of either format, without reading them", async () => {
    const objects = Array.from({ length: 50_000 }, (_, n) => ({ n: 100_000 + n, text: "words" }));
    const jsonl = objects.map((object) => JSON.stringify(object)).join("\n");
    const contents = { "a.jsonl": jsonl, "a.json": JSON.stringify(objects) };
    for (const [path, content] of Object.entries(contents)) {
      const { files, openFile } = await filesOf({ [path]: content });
      const estimate = await estimateRows(files, openFile);
      expect(Math.abs(estimate - 50_000)).toBeLessThan(500);
    }
  });

  it("counts what it cannot understand as a row a file", async () => {
    const { files, openFile } = await filesOf({ "a.json": "broken", "b.json": '{"a":1}' });
    expect(await estimateRows(files, openFile)).toBe(2);
  });
});
