import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readRows, scanSlices } from "../../../src/data/slices.ts";
import { localStorage } from "../../../src/data/storage/local.ts";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import type { Storage } from "../../../src/data/storage/storage.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { type ChunksRequest, writeChunks } from "../../../src/run/chunks/write-chunks.ts";
import { localInputs } from "../../local-inputs.ts";
import { scratchFolder } from "../whole-run.ts";

const maxLineBytes = 1e6;
// Whether chunks survive a power loss is tested with the storages.
const openStorage = (location: string) => localStorage(location, { durable: false });
const dependencies = { openStorage, inputs: localInputs };

/** A request for JSON lines in `folder/chunks`. */
function requestIn(
  folder: string,
  paths: readonly string[],
  changes: Partial<ChunksRequest> = {},
): ChunksRequest {
  return {
    sources: paths.map((path) => ({ path, maxLineBytes })),
    baseDirectory: folder,
    output: join(folder, "chunks"),
    size: { chunks: 3 },
    workers: 0,
    format: { name: "jsonl" },
    maxLineBytes,
    overwrite: false,
    ...changes,
  };
}

const textOf = (folder: string, name: string) => readFileSync(join(folder, "chunks", name), "utf8");
const linesOf = (folder: string, name: string) => textOf(folder, name).split("\n").slice(0, -1);
const namesIn = (folder: string) =>
  readdirSync(join(folder, "chunks"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name)
    .sort();

/** The texts of all rows that a list of files names, in its order. */
async function rowsOfList(path: string): Promise<string[]> {
  const files = await localInputs.expand([{ path, list: true, maxLineBytes }], "/");
  const { open: openFile } = localInputs;
  const texts: string[] = [];
  for await (const task of scanSlices(files, { rowsPerTask: 7, maxLineBytes, openFile })) {
    const { slices, firstRow } = task;
    for await (const rows of readRows(slices, firstRow, openFile, { maxLineBytes })) {
      for (const row of rows) texts.push(row.raw);
    }
  }
  return texts;
}

const numbered = (count: number) => Array.from({ length: count }, (_, id) => `{"id": ${id}}`);

/** Makes the n-th write of a storage fail. */
function failAt(storage: Storage, failing: number): void {
  const writer = storage.writer.bind(storage);
  let count = 0;
  storage.writer = async (path) => {
    if (++count === failing) throw new SluiceError("STORE_FULL", path);
    return writer(path);
  };
}

describe("writeChunks", () => {
  it("writes every line once, in order, whatever the numbers", async () => {
    const folder = scratchFolder();
    const counts = fc.record({
      rows: fc.nat(60),
      chunks: fc.integer({ min: 1, max: 25 }),
      workers: fc.nat(12),
      files: fc.integer({ min: 1, max: 4 }),
    });
    await fc.assert(
      fc.asyncProperty(counts, async ({ rows, chunks, workers, files }) => {
        const lines = numbered(rows);
        const perFile = Math.ceil(rows / files);
        const names = Array.from({ length: files }, (_, at) => {
          const own = lines.slice(at * perFile, (at + 1) * perFile);
          writeFileSync(join(folder, `in-${at}.jsonl`), own.map((line) => `${line}\n`).join(""));
          return `in-${at}.jsonl`;
        });
        const changes = { size: { chunks }, workers, overwrite: true };
        const found = await writeChunks(requestIn(folder, names, changes), dependencies);
        expect(found).toMatchObject({ rows, chunks, workers, inputFiles: files });
        expect(found.emptyChunks).toBe(Math.max(0, chunks - rows));
        expect(found.largestRows - found.smallestRows).toBeLessThanOrEqual(1);
        expect(linesOf(folder, "metadata.txt")).toHaveLength(chunks);
        expect(await rowsOfList(found.metadata)).toEqual(lines);
        const shares = await Promise.all(
          Array.from({ length: workers }, (_, at) =>
            rowsOfList(join(folder, "chunks/workers", `${at}.txt`)),
          ),
        );
        if (workers > 0) expect(shares.flat()).toEqual(lines);
      }),
      { numRuns: 25 },
    );
  });

  it("carries lines over byte for byte, what is no JSON and no UTF-8 among them", async () => {
    const folder = scratchFolder();
    const [digits, broken, list] = ['{"a":9007199254740993,"b":1.0}', "{broken", "[1, 2]"];
    const odd = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from('{"a"}')]);
    const end = Buffer.from('\n{"last": "no line end \u2028"}');
    const input = Buffer.concat([Buffer.from(`${digits}\n\n${broken}\r\n${list}\n`), odd, end]);
    writeFileSync(join(folder, "in.jsonl"), input);
    const found = await writeChunks(requestIn(folder, ["in.jsonl"]), dependencies);
    expect(found).toMatchObject({ rows: 5, chunks: 3, smallestRows: 1, largestRows: 2 });
    const written = [0, 1, 2].map((at) => readFileSync(join(folder, `chunks/part_${at}.jsonl`)));
    // Blank lines are no rows, and every line ends in the same way.
    const expected = [Buffer.from(`${digits}\n${broken}\n${list}\n`), odd, end, Buffer.from("\n")];
    expect(Buffer.concat(written).equals(Buffer.concat(expected))).toBe(true);
  });

  it("writes tables of one schema, and reads them back", async () => {
    const folder = scratchFolder();
    const lines = [
      '{"id":9007199254740993,"text":"a","turns":[{"role":"user","content":"hi"}]}',
      '{"id":2,"text":null,"turns":[]}',
      '{"id":3,"text":"c","turns":[{"role":"user","content":"ho"}],"score":0.5}',
    ];
    writeFileSync(join(folder, "in.jsonl"), `${lines.join("\n")}\n`);
    const changes: Partial<ChunksRequest> = { format: { name: "parquet" }, size: { chunks: 2 } };
    const found = await writeChunks(requestIn(folder, ["in.jsonl"], changes), dependencies);
    expect(namesIn(folder)).toEqual([
      "_chunks.json",
      "metadata.txt",
      "part_0.parquet",
      "part_1.parquet",
    ]);
    const [first, , third] = (await rowsOfList(found.metadata)).map((text) => text);
    expect(first).toContain('"id":9007199254740993');
    expect(first).toContain('"score":null');
    expect(JSON.parse(third!)).toEqual(JSON.parse(lines[2]!));
    // A table to lines again, of some columns only.
    const back = requestIn(folder, ["chunks/metadata.txt"], {
      sources: [{ path: "chunks/metadata.txt", list: true, maxLineBytes }],
      columns: ["text", "id"],
      output: join(folder, "back"),
      size: { rows: 2 },
    });
    await writeChunks(back, dependencies);
    expect(readFileSync(join(folder, "back/part_0.jsonl"), "utf8")).toBe(
      '{"text":"a","id":9007199254740993}\n{"text":null,"id":2}\n',
    );
  });

  it("refuses a row that a table cannot hold, names it, and leaves nothing", async () => {
    const folder = scratchFolder();
    writeFileSync(join(folder, "in.jsonl"), '{"id":1}\n{"id":2}\n{broken\n');
    for (const format of [{ name: "parquet" }, { name: "csv" }, { name: "json" }] as const) {
      const request = requestIn(folder, ["in.jsonl"], { format, size: { rows: 1 } });
      await expect(writeChunks(request, dependencies)).rejects.toMatchObject({
        code: "INPUT_UNREADABLE",
        message: expect.stringContaining("in.jsonl:3"),
      });
      expect(namesIn(folder)).toEqual([]);
    }
  });

  it("refuses a line that is too long", async () => {
    const folder = scratchFolder();
    writeFileSync(join(folder, "in.jsonl"), `{"id":1}\n{"text":"${"x".repeat(100)}"}\n`);
    const request = requestIn(folder, ["in.jsonl"], { maxLineBytes: 50 });
    await expect(writeChunks(request, dependencies)).rejects.toMatchObject({
      message: expect.stringContaining("in.jsonl:2"),
      hint: "raise --max-line-bytes",
    });
  });

  describe("in a folder that is in use", () => {
    function prepared(rows = 10): string {
      const folder = scratchFolder();
      writeFileSync(join(folder, "in.jsonl"), `${numbered(rows).join("\n")}\n`);
      return folder;
    }

    it("does nothing where the same chunks stand, and refuses others until told", async () => {
      const folder = prepared();
      const request = requestIn(folder, ["in.jsonl"], { workers: 2 });
      const first = await writeChunks(request, dependencies);
      expect(first.isNew).toBe(true);
      expect(await writeChunks(request, dependencies)).toEqual({ ...first, isNew: false });
      const other: ChunksRequest = { ...request, size: { chunks: 2 } };
      await expect(writeChunks(other, dependencies)).rejects.toMatchObject({
        code: "OUTPUT_OCCUPIED",
        message: expect.stringContaining("3 other chunks"),
      });
      expect(linesOf(folder, "metadata.txt")).toHaveLength(3);
      const second = await writeChunks({ ...other, workers: 0, overwrite: true }, dependencies);
      expect(second).toMatchObject({ isNew: true, chunks: 2 });
      expect(namesIn(folder)).toEqual([
        "_chunks.json",
        "metadata.txt",
        "part_0.jsonl",
        "part_1.jsonl",
      ]);
    });

    it("notices an input that changed, and a chunk that is gone", async () => {
      const folder = prepared();
      const request = requestIn(folder, ["in.jsonl"]);
      await writeChunks(request, dependencies);
      rmSync(join(folder, "chunks/part_1.jsonl"));
      await expect(writeChunks(request, dependencies)).rejects.toMatchObject({
        message: expect.stringContaining("not as they were written"),
      });
      await writeChunks({ ...request, overwrite: true }, dependencies);
      writeFileSync(join(folder, "in.jsonl"), `${numbered(11).join("\n")}\n`);
      await expect(writeChunks(request, dependencies)).rejects.toMatchObject({
        code: "OUTPUT_OCCUPIED",
      });
    });

    it("touches no file of others, told to overwrite or not", async () => {
      const folder = prepared();
      mkdirSync(join(folder, "chunks/workers"), { recursive: true });
      for (const name of ["part_7.jsonl", "metadata.txt", "workers/0.txt"]) {
        writeFileSync(join(folder, "chunks", name), "mine");
        for (const overwrite of [false, true]) {
          const request = requestIn(folder, ["in.jsonl"], { overwrite });
          await expect(writeChunks(request, dependencies)).rejects.toMatchObject({
            code: "OUTPUT_OCCUPIED",
            message: expect.stringContaining(name),
          });
        }
        expect(textOf(folder, name)).toBe("mine");
        rmSync(join(folder, "chunks", name));
      }
      writeFileSync(join(folder, "chunks/notes.txt"), "mine");
      await writeChunks(requestIn(folder, ["in.jsonl"]), dependencies);
      await writeChunks(
        requestIn(folder, ["in.jsonl"], { size: { chunks: 1 }, overwrite: true }),
        dependencies,
      );
      expect(namesIn(folder)).toEqual([
        "_chunks.json",
        "metadata.txt",
        "notes.txt",
        "part_0.jsonl",
      ]);
    });

    it.each(["chunks/part_*.jsonl", "linked/part_*.jsonl", "same.jsonl"])(
      "never replaces its own input, named %s",
      async (input) => {
        const folder = prepared();
        await writeChunks(requestIn(folder, ["in.jsonl"]), dependencies);
        symlinkSync("chunks", join(folder, "linked"));
        symlinkSync("linked/part_0.jsonl", join(folder, "same.jsonl"));
        const again = requestIn(folder, [input], { overwrite: true });
        await expect(writeChunks(again, dependencies)).rejects.toMatchObject({ code: "USAGE" });
        expect(linesOf(folder, "part_0.jsonl")).toEqual(numbered(4));
      },
    );

    it("goes on where it was killed, asked for the same, and needs no telling", async () => {
      const folder = prepared();
      const request = requestIn(folder, ["in.jsonl"]);
      const whole = await writeChunks(request, dependencies);
      // As a kill after the first chunk leaves it.
      const record = JSON.parse(textOf(folder, "_chunks.json"));
      const unfinished = { ...record, isComplete: false, files: [] };
      writeFileSync(join(folder, "chunks/_chunks.json"), JSON.stringify(unfinished));
      for (const name of ["metadata.txt", "part_1.jsonl", "part_2.jsonl"]) {
        rmSync(join(folder, "chunks", name));
      }
      expect(await writeChunks(request, dependencies)).toEqual(whole);
      expect(await rowsOfList(whole.metadata)).toEqual(numbered(10));
    });

    it("removes what it wrote when the storage fails", async () => {
      const folder = prepared();
      for (const failing of [1, 2, 3]) {
        const storage = memoryStorage();
        failAt(storage, failing);
        const openStorage = () => storage;
        const request = requestIn(folder, ["in.jsonl"]);
        await expect(writeChunks(request, { ...dependencies, openStorage })).rejects.toMatchObject({
          code: "STORE_FULL",
        });
        const left: string[] = [];
        for await (const { path } of storage.list("")) left.push(path);
        expect(left).toEqual([]);
      }
    });
  });
});
