import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { hubCache, listHubFolders, markOf } from "../../../src/engines/models/hub-cache.ts";
import { temporaryFolder } from "./context.ts";

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
