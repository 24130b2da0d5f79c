import { expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { GrowingLines } from "../../../src/run/directory/growing-lines.ts";

it("gives each whole line once, whenever it was finished", async () => {
  const storage = memoryStorage();
  const lines = new GrowingLines(storage, "log");
  const fresh = () => Array.fromAsync(lines.fresh());
  expect(await fresh()).toEqual([]);
  const file = await storage.appender("log");
  const write = (text: string) => file.append(Buffer.from(text));
  await write("one\ntwo\nthr");
  expect(await fresh()).toEqual(["one", "two"]);
  expect(await fresh()).toEqual([]);
  const long = "ä".repeat(limits.readChunkBytes);
  await write(`ee\n\n${long}\nlast`);
  expect(await fresh()).toEqual(["three", "", long]);
  await write("\n");
  expect(await fresh()).toEqual(["last"]);
});
