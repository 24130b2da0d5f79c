import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { AnswerCache } from "../../../src/run/reuse/answer-cache.ts";
import { responseOf } from "../scripted-engine.ts";

const keyOf = (at: number) => at.toString(16).padStart(2, "0").repeat(32);

async function sizeOf(storage: ReturnType<typeof memoryStorage>) {
  const files: number[] = [];
  for await (const { bytes } of storage.list("")) files.push(bytes);
  return { files: files.length, bytes: files.reduce((sum, bytes) => sum + bytes, 0) };
}

describe("AnswerCache", () => {
  it("finds what was added, also by another process; the first stays", async () => {
    const storage = memoryStorage();
    const cache = new AnswerCache(storage, 1e6);
    expect(await cache.find(keyOf(1))).toBeUndefined();
    await cache.add(keyOf(1), responseOf("one"));
    await new AnswerCache(storage, 1e6).add(keyOf(1), responseOf("later"));
    expect((await new AnswerCache(storage, 1e6).find(keyOf(1)))?.answers[0]?.text).toBe("one");
  });

  const lossy = JSON.stringify({ ...responseOf(""), rows: [{ v: { 0: 1 } }] });
  it.each(["", "{", "null", lossy, '{"answers":3}', '{"answers":[],"usage":{}}'])(
    "puts an answer in the place of a file of %j",
    async (text) => {
      const storage = memoryStorage();
      await storage.replace(`01/${keyOf(1)}.json`, Buffer.from(text));
      const cache = new AnswerCache(storage, 1e6);
      expect(await cache.find(keyOf(1))).toBeUndefined();
      await cache.add(keyOf(1), responseOf("whole"));
      expect((await cache.find(keyOf(1)))?.answers[0]?.text).toBe("whole");
    },
  );

  it("keeps rows with values that JSON lacks", async () => {
    const storage = memoryStorage();
    const rows = [{ v: new Float32Array([1]), nan: Number.NaN, big: 2n ** 60n, at: new Date(0) }];
    const response = { ...responseOf(""), rows: rows as unknown as JsonObject[] };
    await new AnswerCache(storage, 1e6).add(keyOf(1), response);
    expect(await new AnswerCache(storage, 1e6).find(keyOf(1))).toEqual(response);
  });

  it("is brought below its limit, from anywhere in the order of names", async () => {
    for (const start of [0, 0.5, 0.99]) {
      const storage = memoryStorage();
      const filling = new AnswerCache(storage, 1e6);
      for (let at = 0; at < 40; at++) await filling.add(keyOf(at), responseOf("text"));
      const full = await sizeOf(storage);
      const cache = new AnswerCache(storage, full.bytes / 2);
      await cache.trim(start);
      expect(await sizeOf(storage)).toEqual(full);
      await cache.add(keyOf(41), responseOf("text"));
      await cache.trim(start);
      const { bytes, files } = await sizeOf(storage);
      expect(bytes).toBeLessThanOrEqual(full.bytes / 2);
      expect(files).toBeGreaterThan(10);
    }
  });
});
