import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  readRepackRecord,
  removeRepacked,
  repackedFile,
  repackPlace,
  writeRepackRecord,
} from "../../../src/engines/models/repacked.ts";
import { temporaryFolder } from "./context.ts";

const source = { file: "a.Q4_1.gguf", sha256: "0f".repeat(32) };

async function placeWithFile() {
  const home = await temporaryFolder();
  const place = repackPlace(home, source);
  await mkdir(place.directory, { recursive: true });
  await writeFile(place.file, "four");
  const record = {
    repackedFrom: source,
    weights: { file: "a.Q4_1.repacked-Q8_0.gguf", sha256: "ab", bytes: 4 },
    measured: { here: { device: "gpu" as const } },
  };
  await writeRepackRecord(place, record);
  return { home, place, record };
}

describe("the cache of repacked weights", () => {
  it("has a place by digest and format, with a name a person can read", () => {
    const { directory, file, lock } = repackPlace("/home", source);
    expect(directory).toBe(join("/home", "repacked", `${source.sha256}.Q8_0`));
    expect(file).toBe(join(directory, "a.Q4_1.repacked-Q8_0.gguf"));
    expect(lock.startsWith(`${directory}.`)).toBe(true);
  });

  it("vouches for a whole file only", async () => {
    const { place, record } = await placeWithFile();
    expect(await readRepackRecord(place)).toEqual(record);
    expect(await repackedFile(place, record)).toBe(place.file);
    await writeFile(place.file, "tor");
    expect(await repackedFile(place, record)).toBeUndefined();
    expect(await repackedFile(place, { ...record, weights: undefined })).toBeUndefined();
    expect(await repackedFile(place, undefined)).toBeUndefined();
  });

  it("removes what was made of a model, and nothing else", async () => {
    const { home } = await placeWithFile();
    expect(await removeRepacked(home, "ff".repeat(32))).toBe(0);
    expect(await readdir(join(home, "repacked"))).toHaveLength(1);
    expect(await removeRepacked(home, source.sha256)).toBeGreaterThan(4);
    expect(await readdir(join(home, "repacked"))).toEqual([]);
  });
});
