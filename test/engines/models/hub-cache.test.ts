import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { withFileLock } from "../../../src/engines/models/file-lock.ts";
import {
  dropStaleMarks,
  hubCache,
  isComplete,
  listHubFolders,
  markOf,
  removeHubFolder,
} from "../../../src/engines/models/hub-cache.ts";
import { modelContext, temporaryFolder } from "./context.ts";

describe("hubCache", () => {
  it("has a mark for each revision and variant", () => {
    const marks = [
      ["main", "translation fp32"],
      ["v1", "translation fp32"],
      ["main", "translation q8"],
    ].map(([revision, variant]) => {
      const named = { repository: "owner/name", revision: revision! };
      return hubCache("/home", named, variant!).mark;
    });
    expect(new Set(marks).size).toBe(3);
    expect(marks[0]).toMatch(/^\/home\/models\/onnx\//);
  });
});

it("lists what is here whole, each repository once", async () => {
  const home = await temporaryFolder();
  expect(await listHubFolders(home)).toEqual([]);
  const { directory } = hubCache(home, { repository: "", revision: "" }, "");
  for (const file of ["owner/name/onnx/model.onnx", "owner/half/onnx/model.onnx"]) {
    await mkdir(dirname(join(directory, file)), { recursive: true });
    await writeFile(join(directory, file), "1234");
  }
  for (const [revision, name] of [
    ["main", "owner/name"],
    ["v1", "hf:owner/name@v1"],
  ] as const) {
    const { mark } = hubCache(home, { repository: "owner/name", revision }, "translation fp32");
    await writeFile(mark, markOf(name));
  }
  const path = join(directory, "owner/name");
  expect(await listHubFolders(home)).toEqual([{ name: "owner/name", path, bytes: 4 }]);
});

it("is not here once its folder is gone, also one of a revision", async () => {
  const home = await temporaryFolder();
  const cache = hubCache(home, { repository: "owner/name", revision: "v1" }, "translation fp32");
  await mkdir(join(cache.directory, "owner/name/onnx"), { recursive: true });
  await writeFile(cache.mark, markOf("owner/name@v1"));
  expect(await isComplete(cache)).toBe(false);
  await mkdir(cache.folder);
  expect(await isComplete(cache)).toBe(true);
  await rm(join(cache.directory, "owner/name"), { recursive: true });
  expect(await listHubFolders(home)).toEqual([]);
});

it("is not here again because another fetch made its folder", async () => {
  const home = await temporaryFolder();
  const cacheOf = (repository: string, revision: string) =>
    hubCache(home, { repository, revision }, "translation fp32");
  const [main, pinned, other] = [
    cacheOf("owner/name", "main"),
    cacheOf("owner/name", "v1"),
    cacheOf("owner/other", "main"),
  ];
  await mkdir(other.folder, { recursive: true });
  await writeFile(main.mark, markOf("owner/name"));
  await writeFile(pinned.mark, markOf("hf:owner/name@v1"));
  await writeFile(other.mark, markOf("owner/other"));
  await dropStaleMarks(pinned);
  await mkdir(pinned.folder, { recursive: true });
  expect(await Promise.all([main, pinned, other].map(isComplete))).toEqual([false, false, true]);
});

it("is removed with its marks, and others stay", async () => {
  const context = await modelContext();
  const home = context.homeDirectory;
  for (const repository of ["owner/name", "owner/name2"]) {
    const { folder, mark } = hubCache(home, { repository, revision: "main" }, "translation fp32");
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "config.json"), "1234");
    await writeFile(mark, markOf(`hf:${repository}`));
  }
  expect(await removeHubFolder(home, "owner/absent", context)).toBeUndefined();
  expect(await removeHubFolder(home, "../models", context)).toBeUndefined();
  expect(await removeHubFolder(home, "hf:owner/name", context)).toBe(4);
  expect(await listHubFolders(home)).toMatchObject([{ name: "owner/name2" }]);
  const { directory } = hubCache(home, { repository: "", revision: "" }, "");
  expect(await readdir(directory)).toHaveLength(2);
});

it("is removed once nobody fetches any of it", async () => {
  const context = await modelContext();
  const home = context.homeDirectory;
  const model = { repository: "owner/name", revision: "v1" };
  const { folder, lock } = hubCache(home, model, "translation q8");
  await mkdir(folder, { recursive: true });
  const order: string[] = [];
  let removal: Promise<void> | undefined;
  await withFileLock(lock, context, async () => {
    const onWait = () => void order.push("wait");
    const removed = removeHubFolder(home, "owner/name", { ...context, onWait });
    removal = removed.then(() => void order.push("removed"));
    await expect.poll(() => order.length).toBe(1);
    await writeFile(join(folder, "config.json"), "1234");
  });
  await removal;
  expect(order).toEqual(["wait", "removed"]);
  expect(await readdir(dirname(dirname(folder)))).toEqual([]);
});
