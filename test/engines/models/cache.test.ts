import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  cacheError,
  cachePlace,
  listCached,
  publish,
  type RemoteReference,
  readCached,
} from "../../../src/engines/models/cache.ts";
import { parseModelName } from "../../../src/engines/models/model-reference.ts";
import { temporaryFolder } from "./context.ts";

const reference = (name: string) => parseModelName(name) as RemoteReference;
const record = { name: "hf:o/r/a.gguf", file: "a.gguf", bytes: 4, sha256: "", source: "hub" };

describe("cachePlace", () => {
  it("keeps apart what may differ, and joins what is the same", () => {
    const directory = (name: string) => cachePlace("/home", reference(name)).directory;
    expect(directory("smollm2-135m-instruct")).toBe("/home/models/smollm2-135m-instruct");
    expect(directory("hf:o/r/a.gguf")).toBe(directory("hf:o/r@main/a.gguf"));
    expect(directory("hf:o/r/a.gguf")).not.toBe(directory("hf:o/r@v1/a.gguf"));
    expect(directory("https://h/a.gguf")).not.toBe(directory("https://h/a.gguf?x=1"));
  });

  it("stays inside the cache", () => {
    const place = cachePlace("/home", reference("hf:o/r/x/..y/a.gguf"));
    expect(place.file).toBe(join(place.directory, "a.gguf"));
  });
});

describe("a cached model", () => {
  it("counts when file and record agree", async () => {
    const home = await temporaryFolder();
    const place = cachePlace(home, reference(record.name));
    expect(await listCached(home)).toEqual([]);
    await mkdir(place.directory, { recursive: true });
    expect(await readCached(place)).toBeUndefined();
    await writeFile(`${place.file}.part`, "GGUF");
    await publish(place, `${place.file}.part`, record);
    expect(await readCached(place)).toEqual(record);
    expect(await listCached(home)).toEqual([{ record, path: place.file }]);
    await writeFile(place.file, "GGU");
    expect(await readCached(place)).toBeUndefined();
    expect(await listCached(home)).toEqual([]);
    await writeFile(place.record, '{"name":');
    expect(await readCached(place)).toBeUndefined();
  });
});

describe("cacheError", () => {
  it("names a full disk and a place that cannot be used, and passes others on", () => {
    const refused = (code: string, path?: string) =>
      Object.assign(new Error(code), { code, syscall: "open", ...(path && { path }) });
    const hint = expect.stringContaining("SLUICE_HOME");
    expect(cacheError(refused("EACCES", "/home/a/model.json"), "/home")).toMatchObject({
      message: expect.stringContaining("/home/a/model.json: EACCES"),
      hint,
    });
    expect(cacheError(refused("EIO"), "/home")).toMatchObject({
      hint: expect.not.stringMatching("SLUICE"),
    });
    expect(cacheError(refused("ENOSPC"), "/home")).toMatchObject({ code: "STORE_FULL" });
    expect(cacheError(refused("EROFS"), "/home")).toMatchObject({ code: "STORE_FAILED" });
    const bug = new TypeError("bug");
    expect(cacheError(bug, "/home")).toBe(bug);
  });
});
