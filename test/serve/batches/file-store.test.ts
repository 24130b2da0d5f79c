import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { localStorage } from "../../../src/data/storage/local.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { FileStore } from "../../../src/serve/batches/file-store.ts";
import { handClock } from "../../hand-clock.ts";
import { scratchFolder } from "../../run/whole-run.ts";

function opener() {
  const folder = scratchFolder();
  const { clock, pass } = handClock();
  const random = seededRandom(1);
  const open = () => FileStore.open(localStorage(folder), clock, random);
  return { folder, open, pass };
}

async function stored(store: FileStore, text: string, lifeSeconds?: number) {
  const upload = await store.begin();
  await upload.write(Buffer.from(text));
  return await upload.finish({ filename: "a.jsonl", purpose: "batch", lifeSeconds });
}

const textOf = async (store: FileStore, id: string, start = 0, end = 5) =>
  (await buffer(store.read(id, start, end))).toString();

describe("FileStore", () => {
  it("keeps files for the next server, in the order of their creation", async () => {
    const { open, pass } = opener();
    const store = await open();
    const first = await stored(store, "first");
    pass(1);
    const second = await stored(store, "other");
    const next = await open();
    expect(await next.all()).toEqual([first, second]);
    expect(await textOf(next, second.id)).toBe("other");
    expect(await textOf(next, second.id, 1, 3)).toBe("th");
    await next.remove(first.id);
    expect(await (await open()).all()).toEqual([second]);
  });

  it("removes what a killed server left of an upload", async () => {
    const { folder, open } = opener();
    const store = await open();
    const { id } = await stored(store, "whole");
    const cut = await store.begin();
    await cut.write(Buffer.alloc(100_000));
    writeFileSync(join(folder, "files", `${store.newId()}.content`), "no record");
    expect(readdirSync(join(folder, "files"))).toHaveLength(4);
    expect((await (await open()).all()).map((file) => file.id)).toEqual([id]);
    expect(readdirSync(join(folder, "files")).toSorted()).toEqual([`${id}.content`, `${id}.json`]);
    await cut.abort();
  });

  it("forgets files whose time is over", async () => {
    const { folder, open, pass } = opener();
    const store = await open();
    const { id } = await stored(store, "brief", 3600);
    pass(3_599_000);
    expect(store.get(id).id).toBe(id);
    pass(1000);
    expect(() => store.get(id)).toThrow("there is no such file");
    expect(await store.all()).toEqual([]);
    expect(readdirSync(join(folder, "files"))).toEqual([]);
  });

  it("frees the place of files whose time is over, though nobody lists them", async () => {
    const { folder, open, pass } = opener();
    const store = await open();
    const names = () => readdirSync(join(folder, "files")).toSorted();
    const first = await stored(store, "brief", 3600);
    pass(3_600_000);
    const { id } = await stored(store, "later", 3600);
    expect(first.id).not.toBe(id);
    expect(names()).toEqual([`${id}.content`, `${id}.json`]);
    pass(3_600_000);
    await open();
    expect(names()).toEqual([]);
  });

  it("makes a file of a result once, however often it is asked", async () => {
    const { folder, open } = opener();
    const store = await open();
    writeFileSync(join(folder, "output.jsonl"), "lines");
    const facts = { filename: "b.jsonl", purpose: "batch_output" };
    const id = store.newId();
    const file = await store.adopt(id, "output.jsonl", facts);
    writeFileSync(join(folder, "other.jsonl"), "other");
    expect(await (await open()).adopt(id, "other.jsonl", facts)).toEqual(file);
    expect(await textOf(store, id)).toBe("lines");
  });

  it("knows no id that it did not make", async () => {
    const store = await opener().open();
    const { id } = await stored(store, "text");
    for (const other of [`${id}/`, `../${id}`, id.toUpperCase(), "file-", "__proto__", ""]) {
      expect(() => store.get(other)).toThrow("there is no such file");
    }
  });
});
