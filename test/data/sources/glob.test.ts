import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { fixedFolder, matchFiles, splitGlob } from "../../../src/data/sources/glob.ts";
import { temporaryFolder } from "../../engines/models/context.ts";
import { localInputs } from "../../local-inputs.ts";

describe("globs", () => {
  it("takes a folder whose name looks like a glob for itself", async () => {
    const root = await temporaryFolder();
    for (const folder of ["{a,b}/in", "[x]", "a"])
      await mkdir(join(root, folder), { recursive: true });
    for (const file of ["{a,b}/in/1.jsonl", "[x]/2.jsonl", "a/3.jsonl"]) {
      await writeFile(join(root, file), "{}\n");
    }
    const found = async (path: string) =>
      (await localInputs.expand([{ path, maxLineBytes: 1000 }], root)).map((file) => [
        file.path.slice(root.length + 1),
        file.below?.slice(root.length + 1),
      ]);
    expect(await found("{a,b}/**/*.jsonl")).toEqual([["{a,b}/in/1.jsonl", "{a,b}"]]);
    expect(await found("[x]/*")).toEqual([["[x]/2.jsonl", "[x]"]]);
    expect(await found("{a,c}/*.jsonl")).toEqual([["a/3.jsonl", ""]]);
    expect(await found("a/3.jsonl")).toEqual([["a/3.jsonl", undefined]]);
  });

  it("look into hidden folders only where they say the dot", async () => {
    const root = await temporaryFolder();
    await mkdir(join(root, "a/.b"), { recursive: true });
    await writeFile(join(root, "a/.b/1.jsonl"), "{}\n");
    expect(await Array.fromAsync(matchFiles("*/*/1.jsonl", root))).toEqual([]);
    expect(await Array.fromAsync(matchFiles("*/.b/1.jsonl", root))).toEqual([
      join(root, "a/.b/1.jsonl"),
    ]);
  });

  it("start from the last folder that is written out, or is there", async () => {
    const root = await temporaryFolder();
    await mkdir(join(root, "{a,b}/[c]"), { recursive: true });
    expect(await splitGlob("{a,b}/[c]/{d,e}/*.jsonl", root)).toEqual({
      root: `${root}/{a,b}/[c]`,
      glob: "{d,e}/*.jsonl",
    });
    expect(await splitGlob("/*.jsonl", root)).toEqual({ root: "/", glob: "*.jsonl" });
    expect(fixedFolder("/in/**/*.jsonl")).toBe("/in");
    expect(fixedFolder("/in/rows.jsonl")).toBe("/in");
  });
});
