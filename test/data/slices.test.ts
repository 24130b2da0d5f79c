import { gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SourceOptions } from "../../src/data/formats/format.ts";
import { formatFor } from "../../src/data/formats/registry.ts";
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

async function filesOf(contents: Record<string, string | Buffer>, id?: string): Promise<Files> {
  const storage = memoryStorage();
  const [opened, closed]: [string[], string[]] = [[], []];
  const files: InputFile[] = [];
  for (const [path, content] of Object.entries(contents)) {
    await storage.replace(path, Buffer.from(content as string));
    const format = formatFor(path).name;
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

async function rowsOf(
  { openFile }: Files,
  tasks: readonly TaskSlices[],
  sources: readonly SourceOptions[] = [],
): Promise<InputRow[]> {
  const rows: InputRow[] = [];
  for (const { slices, firstRow } of tasks) {
    for await (const batch of readRows(slices, firstRow, openFile, { maxLineBytes, sources })) {
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
      format: fc.constantFrom("jsonl", "json", "csv"),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(file, { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 1, max: 7 }),
        fc.option(fc.integer({ min: 1, max: 40 }), { nil: undefined }),
        fc.record({ tasks: fc.nat({ max: 9 }), more: fc.integer({ min: 1, max: 3 }) }),
        async (specs, rowsPerTask, limit, { tasks: longer, more }) => {
          const values: { n: number }[] = [];
          const contents = specs.map(({ rows, format }, at) => {
            const own = Array.from({ length: rows }, (_, row) => ({ n: values.length + row }));
            values.push(...own);
            const text = own.map((value) => `${JSON.stringify(value)}\n`).join("");
            const records = ["n", ...own.map(({ n }) => `"${n}"`)].join("\n");
            const files = { json: JSON.stringify(own, null, 1), csv: records, jsonl: text };
            return [`${at}.${format}`, files[format]];
          });
          const input = await filesOf(Object.fromEntries(contents));
          const sources = [{ schema: { properties: { n: { type: "integer" } } } }];
          const longerTasks = { tasks: longer, rows: rowsPerTask + more };
          const cut = { rowsPerTask, longerTasks, sources, ...(limit && { limit }) };
          const tasks = await tasksOf(input, cut);
          const expected = values.slice(0, limit);
          const rows = await rowsOf(input, tasks, sources);
          expect(rows.map((row) => row.value)).toEqual(expected);
          expect(rows.map((row) => row.index)).toEqual(expected.map((_, index) => index));
          const sizes = tasks.slice(0, -1).map((task) => task.rows);
          const wanted = sizes.map((_, at) => (at < longer ? rowsPerTask + more : rowsPerTask));
          expect(sizes).toEqual(wanted);
          const firstRows = tasks.map((_, at) => sizes.slice(0, at).reduce((a, b) => a + b, 0));
          expect(tasks.map((task) => task.firstRow)).toEqual(firstRows);
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("compressed files", () => {
  const packed = (from: number, count: number) => gzipSync(lines(from, count));

  it("lie in one task each, small ones together, and others are cut around them", async () => {
    const input = await filesOf({
      "a.jsonl": lines(0, 5),
      "b.jsonl.gz": packed(5, 10),
      "c.jsonl.gz": packed(15, 1),
      "d.jsonl.zst": zstdCompressSync(lines(16, 2)),
      "e.jsonl": lines(18, 4),
    });
    const tasks = await tasksOf(input, { rowsPerTask: 4 });
    const cut = tasks.map(({ firstRow, rows, slices }) => [
      firstRow,
      rows,
      slices.map((slice) => `${slice.file[0]}${slice.rows}`).join(" "),
    ]);
    expect(cut).toEqual([
      [0, 4, "a4"],
      [4, 1, "a1"],
      [5, 10, "b10"],
      [15, 4, "c1 d2 e1"],
      [19, 3, "e3"],
    ]);
    const rows = await rowsOf(input, tasks);
    expect(rows.map((row) => row.value?.n)).toEqual(rows.map((_, index) => index));
    expect(rows.length).toBe(22);
    expect(input.closed.length).toBe(input.opened.length);
  });

  it("are read up to the limit, and no further", async () => {
    const input = await filesOf({ "a.jsonl.gz": packed(0, 10), "b.jsonl": lines(10, 5) });
    for (const limit of [1, 7, 10, 12]) {
      const tasks = await tasksOf(input, { rowsPerTask: 3, limit });
      expect((await rowsOf(input, tasks)).length).toBe(limit);
    }
  });

  it("are unreadable when planned, and changed later, where their tail is torn", async () => {
    const whole = packed(0, 10_000);
    const input = await filesOf({ "a.jsonl.gz": whole });
    const torn = await filesOf({ "a.jsonl.gz": whole.subarray(0, -900) });
    const at = { file: "a.jsonl.gz" };
    const planned = tasksOf(torn, { rowsPerTask: 3 });
    await expect(planned).rejects.toMatchObject({ code: "INPUT_UNREADABLE", place: at });
    const tasks = await tasksOf(input, { rowsPerTask: 3 });
    await expect(rowsOf(torn, tasks)).rejects.toMatchObject({ code: "INPUT_CHANGED", place: at });
  });

  it("are estimated by what their starts hold", async () => {
    const { files, openFile } = await filesOf({ "a.jsonl.gz": packed(0, 50_000) });
    expect(Math.abs((await estimateRows(files, openFile)) - 50_000)).toBeLessThan(15_000);
    const small = await filesOf({ "a.jsonl.gz": packed(0, 7), "b.jsonl.gz": packed(0, 3) });
    expect(await estimateRows(small.files, small.openFile)).toBe(10);
    const torn = await filesOf({ "a.jsonl.gz": packed(0, 7).subarray(0, 12) });
    expect(await estimateRows(torn.files, torn.openFile)).toBe(1);
  });
});

describe("columns and schema of an input", () => {
  const contents = {
    "a.csv": "id,name,note\n1,one,x\ntwo,two,y\n",
    "b.jsonl": '{"note":"z","id":3.0,"name":"three"}\n{"id":4}\n',
  };
  const schema = { properties: { id: { type: "integer" } }, required: ["id"] };

  it("are what rows keep, and must fit, each row alone", async () => {
    const input = await filesOf(contents);
    const sources = [{ columns: ["name", "id"], schema }];
    const tasks = await tasksOf(input, { rowsPerTask: 10, sources });
    expect(tasks[0]?.slices.map((slice) => slice.source)).toEqual([0, 0]);
    const rows = await rowsOf(input, tasks, sources);
    expect(rows.map((row) => row.error?.code ?? row.raw)).toEqual([
      '{"name":"one","id":1}',
      "ROW_SCHEMA",
      '{"name":"three","id":3.0}',
      '{"id":4}',
    ]);
    expect(rows[1]?.error?.message).toBe(
      'the row does not fit input.schema: expected number, received string: "two" (a.csv:3, field id)',
    );
    expect(rows[1]?.value).toBe(undefined);
  });

  it("are left to the rows where a job says nothing", async () => {
    const tasks = await tasksOf(await filesOf(contents), { rowsPerTask: 10, sources: [{}] });
    expect(tasks[0]?.slices.map(({ source }) => source)).toEqual([undefined, undefined]);
  });

  it("are refused where a file does not have them, with the nearest name", async () => {
    const csv = await filesOf({ "a.csv": contents["a.csv"] });
    const jsonl = await filesOf({ "b.jsonl": contents["b.jsonl"] });
    const refused = (input: Files, source: SourceOptions) =>
      tasksOf(input, { rowsPerTask: 10, sources: [source] });
    await expect(refused(csv, { columns: ["id", "nam"] })).rejects.toMatchObject({
      code: "COLUMN_UNKNOWN",
      message: 'an input has no such column: "nam" (a.csv)',
      hint: "did you mean name? Else: it has id, name, note",
    });
    await expect(refused(csv, { schema: { required: ["price"] } })).rejects.toMatchObject({
      hint: "it has id, name, note",
    });
    await expect(refused(jsonl, { columns: ["notes"] })).rejects.toMatchObject({
      code: "COLUMN_UNKNOWN",
      hint: expect.stringContaining("did you mean note?"),
    });
    const rare = { columns: ["rare"], schema: { properties: { rare: {} } } };
    expect((await refused(jsonl, rare)).length).toBe(1);
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
