import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { InputStores } from "../../../src/data/sources/open.ts";
import { download } from "../../../src/data/transfer/download.ts";
import type { TransferOptions } from "../../../src/data/transfer/transfer.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { temporaryFolder } from "../../engines/models/context.ts";
import { localInputs } from "../../local-inputs.ts";
import { numberedText } from "../sources/web-server.ts";

const place = "s3://b/pre";
const big = numberedText(5_000_000);

/** A far place with files, which tells what was read, and fails where it is told to. */
function farPlace(files: Record<string, Buffer>) {
  const reads: [path: string, offset: number][] = [];
  const state = { failsFrom: Number.POSITIVE_INFINITY };
  const inputs: InputStores = {
    ...localInputs,
    async *list() {
      for (const [name, data] of Object.entries(files)) {
        yield {
          path: `${place}/${name}`,
          bytes: data.length,
          modifiedMs: 0,
          etag: sha256Hex(data),
        };
      }
    },
    open: async (path) => {
      const data = files[path.slice(place.length + 1)]!;
      return {
        bytes: data.length,
        read: async (offset, length) => {
          if (offset >= state.failsFrom) throw new Error("reset");
          reads.push([path, offset]);
          return data.subarray(offset, offset + length);
        },
        close: async () => {},
      };
    },
  };
  return { inputs, reads, state };
}

const options = (changes: Partial<TransferOptions> = {}): TransferOptions => ({
  overwrite: false,
  signal: new AbortController().signal,
  onProgress() {},
  ...changes,
});

describe("download", () => {
  it("makes the same tree, and again leaves it alone", async () => {
    const long = "n".repeat(255);
    const files = { "a.txt": Buffer.from("a"), [`deep/er/${long}`]: big, empty: Buffer.alloc(0) };
    const { inputs, reads } = farPlace(files);
    const folder = join(await temporaryFolder(), "new");
    const first = await download(place, folder, inputs, options());
    expect(first).toMatchObject({ files: 3, bytes: big.length + 1, skippedFiles: 0 });
    for (const [name, data] of Object.entries(files)) {
      expect(Buffer.compare(await readFile(join(folder, name)), data)).toBe(0);
    }
    expect(await readdir(folder, { recursive: true })).toHaveLength(5);
    reads.length = 0;
    const second = await download(place, folder, inputs, options());
    expect(second).toMatchObject({ files: 0, bytes: 0, skippedFiles: 3 });
    expect(reads).toEqual([]);
  });

  it("goes on with what was there of a file, and finds a torn beginning out", async () => {
    const { inputs, reads, state } = farPlace({ "big.bin": big });
    const folder = await temporaryFolder();
    state.failsFrom = 3_000_000;
    await expect(download(place, folder, inputs, options())).rejects.toThrow("reset");
    const [part] = await readdir(folder);
    expect(part).toMatch(/^big\.bin\..*\.sluice-part$/);
    state.failsFrom = Number.POSITIVE_INFINITY;
    reads.length = 0;
    await download(place, folder, inputs, options());
    expect(reads[0]![1]).toBeGreaterThanOrEqual(3_000_000);
    expect(Buffer.compare(await readFile(join(folder, "big.bin")), big)).toBe(0);

    const torn = await temporaryFolder();
    await writeFile(join(torn, part!), "x".repeat(1000));
    reads.length = 0;
    expect(await download(place, torn, inputs, options())).toMatchObject({ files: 1 });
    expect(Buffer.compare(await readFile(join(torn, "big.bin")), big)).toBe(0);
    expect(await readdir(torn)).toEqual(["big.bin"]);
  });

  it("leaves files of other content alone, unless it is told to replace them", async () => {
    const { inputs } = farPlace({ "a.txt": Buffer.from("new"), "b.txt": Buffer.from("b") });
    const folder = await temporaryFolder();
    await writeFile(join(folder, "a.txt"), "old");
    await writeFile(join(folder, "mine.txt"), "mine");
    const target = join(folder, "a.txt");
    expect(await download(place, folder, inputs, options())).toMatchObject({
      files: 1,
      differentFiles: 1,
      different: [target],
    });
    expect(await readFile(target, "utf8")).toBe("old");
    const replaced = await download(place, folder, inputs, options({ overwrite: true }));
    expect(replaced).toMatchObject({ files: 1, skippedFiles: 1, differentFiles: 0 });
    expect(await readFile(target, "utf8")).toBe("new");
    expect((await readdir(folder)).sort()).toEqual(["a.txt", "b.txt", "mine.txt"]);
  });

  it.each(["../../etc/x", "a//b.txt", "a/./b.txt", "/x", "mark/"])(
    "leaves the name %s, and moves the others",
    async (name) => {
      const { inputs } = farPlace({ [name]: Buffer.from("x"), "other.txt": Buffer.from("y") });
      const folder = join(await temporaryFolder(), "down/in");
      const summary = await download(place, folder, inputs, options());
      expect(summary).toMatchObject({ files: 1, failedFiles: 1 });
      expect(summary.failures).toEqual([
        expect.objectContaining({
          code: "UNSUPPORTED",
          message: expect.stringContaining(`${place}/${name}`),
        }),
      ]);
      const found = await readdir(join(folder, "../.."), { recursive: true });
      expect(found.sort()).toEqual(["down", "down/in", "down/in/other.txt"]);
    },
  );

  it("makes folders of objects that stand for them", async () => {
    const none = Buffer.alloc(0);
    const { inputs } = farPlace({ "": none, "sub/": none, "sub/a.txt": Buffer.from("a") });
    const folder = join(await temporaryFolder(), "in");
    expect(await download(place, folder, inputs, options())).toMatchObject({
      files: 1,
      failedFiles: 0,
    });
    expect((await readdir(folder, { recursive: true })).sort()).toEqual(["sub", "sub/a.txt"]);
  });

  it("says which names cannot stand beside each other, and moves the others", async () => {
    const files = { a: Buffer.from("file"), "a/b": Buffer.from("b"), c: Buffer.from("c") };
    const { inputs } = farPlace(files);
    const folder = await temporaryFolder();
    await writeFile(join(folder, "a"), "file");
    const summary = await download(place, folder, inputs, options());
    expect(summary).toMatchObject({ files: 1, skippedFiles: 1, failedFiles: 1 });
    expect(summary.failures[0]!.message).toContain(join(folder, "a"));
    const other = await temporaryFolder();
    await mkdir(join(other, "c"));
    const replacing = await download(place, other, inputs, options({ overwrite: true }));
    expect(replacing.failures).toContainEqual(
      expect.objectContaining({ message: expect.stringContaining("a folder has its name") }),
    );
  });

  it("is not harmed by another call that fetches the same file and is slower", async () => {
    const { inputs } = farPlace({ "big.bin": big });
    const folder = await temporaryFolder();
    const target = join(folder, "big.bin");
    let readers = 0;
    const open: InputStores["open"] = async (path) => {
      const reader = await inputs.open(path);
      const isSlow = ++readers === 2;
      const read = async (offset: number, length: number) => {
        while (isSlow && !existsSync(target)) await setImmediate();
        return reader.read(offset, length);
      };
      return { ...reader, read };
    };
    const calls = [1, 2].map(() => download(place, folder, { ...inputs, open }, options()));
    const outcomes = await Promise.allSettled(calls);
    expect(readers).toBe(2);
    expect(outcomes.some(({ status }) => status === "fulfilled")).toBe(true);
    expect(Buffer.compare(await readFile(target), big)).toBe(0);
  });

  it("stops when it is told to, and says where there is nothing", async () => {
    const stop = new AbortController();
    const { inputs } = farPlace({ "big.bin": big });
    const folder = await temporaryFolder();
    const onProgress = () => stop.abort(new Error("stopped"));
    const stopping = options({ signal: stop.signal, onProgress });
    await expect(download(place, folder, inputs, stopping)).rejects.toThrow("stopped");
    expect(await readdir(folder)).not.toContain("big.bin");
    await expect(download(place, folder, farPlace({}).inputs, options())).rejects.toMatchObject({
      code: "INPUT_MISSING",
    });
  });
});
