import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { InputSource } from "../../src/data/inputs.ts";
import { localInputs } from "../../src/data/sources/open.ts";

const { expand: expandInputs } = localInputs;

let root = "";
const files = [
  "a.jsonl",
  "b.jsonl",
  "b-c.jsonl",
  "notes.md",
  "part[1].json",
  ".hidden.jsonl",
  "deep/a.json",
  "deep/er/b.json",
  "deep/.git/x.json",
  "Z.jsonl",
];
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-inputs-"));
  for (const file of files) {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await writeFile(join(root, file), "{}");
  }
  await symlink(join(root, "deep"), join(root, "linked"));
  await symlink(root, join(root, "deep/circle"));
  await mkdir(join(root, "empty"));
});
afterAll(() => rm(root, { recursive: true, force: true }));

const sources = (...paths: (string | Partial<InputSource>)[]): InputSource[] =>
  paths.map((path) => ({
    path: "",
    maxLineBytes: 1000,
    ...(typeof path === "string" ? { path } : path),
  }));
const expand = async (...paths: (string | Partial<InputSource>)[]) =>
  (await expandInputs(sources(...paths), root)).map((file) => file.path.slice(root.length + 1));

describe("expandInputs", () => {
  it("takes plain files, relative and absolute, in order and as often as named", async () => {
    const found = await expandInputs(
      sources("b.jsonl", { path: join(root, "notes.md"), format: "text", id: "key" }, "b.jsonl"),
      root,
    );
    const modifiedMs = expect.any(Number);
    const b = { path: join(root, "b.jsonl"), bytes: 2, modifiedMs, format: "jsonl" };
    expect(found).toEqual([
      { ...b, source: 0 },
      { path: join(root, "notes.md"), bytes: 2, modifiedMs, format: "text", source: 1, id: "key" },
      { ...b, source: 2 },
    ]);
  });

  it("sorts what a glob matches and keeps what two sources match", async () => {
    const jsonl = ["Z.jsonl", "a.jsonl", "b-c.jsonl", "b.jsonl"];
    expect(await expand("*.jsonl")).toEqual(jsonl);
    expect(await expand("./*.jsonl", "b.jsonl")).toEqual([...jsonl, "b.jsonl"]);
    expect(await expand("{b,a}.jsonl")).toEqual(["a.jsonl", "b.jsonl"]);
    expect(await expand(".hid*")).toEqual([".hidden.jsonl"]);
  });

  it("goes down folders: ** any depth, links only where the depth is known", async () => {
    expect(await expand("deep/**/*.json")).toEqual(["deep/a.json", "deep/er/b.json"]);
    expect(await expand("deep/*.json")).toEqual(["deep/a.json"]);
    expect(await expand("*/a.json")).toEqual(["deep/a.json", "linked/a.json"]);
  });

  it("takes a name that looks like a glob for itself", async () => {
    expect(await expand("part[1].json")).toEqual(["part[1].json"]);
  });

  it.each([
    ["b.jsnl", "INPUT_MISSING", /did you mean .*b\.jsonl\?/],
    ["*.jsnl", "INPUT_MISSING", /did you mean .*\.jsonl\?/],
    ["dep/a.json", "INPUT_MISSING", /did you mean .*deep\?/],
    ["empty/none.json", "INPUT_MISSING", /empty holds nothing/],
    ["deep/er/*.parquet", "INPUT_MISSING", /er holds b\.json$/],
    ["deep/er", "INPUT_UNREADABLE", /deep\/er\/\*\.json$/],
    ["notes.md", "INPUT_FORMAT", /set input\.format/],
    ["s3://bucket/x.jsonl", "UNSUPPORTED", /this machine/],
  ])("refuses %s with %s and a way out", async (path, code, hint) => {
    await expect(expandInputs(sources(path), root)).rejects.toMatchObject({
      code,
      hint: expect.stringMatching(hint),
    });
  });

  it("lists all files below a folder, without going round in circles", async () => {
    const paths: string[] = [];
    for await (const { path } of localInputs.list(root)) paths.push(path.slice(root.length + 1));
    expect(paths.sort()).toEqual([...files].sort());
    await expect(
      localInputs.list(join(root, "nowhere"))[Symbol.asyncIterator]().next(),
    ).rejects.toMatchObject({ code: "INPUT_MISSING" });
  });

  it("stops at too many files, over all sources", async () => {
    const found = await expandInputs(sources("*.jsonl", "deep/a.json"), root, 5);
    expect(found.length).toBe(5);
    const tooMany = { code: "INPUT_TOO_MANY_FILES" };
    await expect(expandInputs(sources("*.jsonl"), root, 3)).rejects.toMatchObject(tooMany);
    await expect(expandInputs(sources("*.jsonl", "deep/a.json"), root, 4)).rejects.toMatchObject(
      tooMany,
    );
  });
});
