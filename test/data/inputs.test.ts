import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { InputSource } from "../../src/data/inputs.ts";
import { localInputs } from "../local-inputs.ts";

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
    // Links to folders are no files, and are not followed at any depth.
    expect(await expand({ path: "deep/**", format: "text" })).toEqual([
      "deep/a.json",
      "deep/er/b.json",
    ]);
  });

  it("takes the files of a folder, of one format, but for hidden ones", async () => {
    expect(await expand("deep")).toEqual(["deep/a.json", "deep/er/b.json"]);
    expect(await expand({ path: "deep/", format: "text" })).toHaveLength(2);
    await expect(expand(".")).rejects.toMatchObject({ code: "INPUT_FORMAT" });
  });

  it("never leaves out what it cannot read", async (context) => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-inputs-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    await symlink("nowhere", join(folder, "a.jsonl"));
    await symlink("round.jsonl", join(folder, "round.jsonl"));
    for (const [glob, name] of Object.entries({ "a*": "a.jsonl", "r*": "round.jsonl" })) {
      await expect(expandInputs(sources(join(folder, glob)), "/")).rejects.toMatchObject({
        code: "INPUT_UNREADABLE",
        message: expect.stringContaining(`leads nowhere (${join(folder, name)})`),
      });
    }
    const refused = expandInputs(sources(folder), "/");
    await expect(refused).rejects.toThrow(`leads nowhere (${join(folder, "a.jsonl")})`);
    const leftOut: string[] = [];
    await symlink(root, join(folder, "linked"));
    for await (const _ of localInputs.list(folder, (path, what) => {
      leftOut.push(`${path.slice(folder.length + 1)}: ${what}`);
    }));
    expect(leftOut).toEqual([
      "a.jsonl: a link that leads nowhere",
      "linked: a link to a folder",
      "round.jsonl: a link that leads nowhere",
    ]);
    // Of a folder only what it would read counts: neither a lock of an editor nor a note.
    await mkdir(join(folder, "sound"));
    await writeFile(join(folder, "sound/b.jsonl"), "{}\n");
    for (const name of [".#b.jsonl", "note"]) await symlink("nowhere", join(folder, "sound", name));
    expect(await expandInputs(sources(join(folder, "sound")), "/")).toHaveLength(1);
    await mkdir(join(folder, "closed"), { mode: 0 });
    if (process.getuid?.() === 0) context.skip("who is root reads every folder");
    await expect(expandInputs(sources(join(folder, "**/*.jsonl")), "/")).rejects.toMatchObject({
      code: "INPUT_UNREADABLE",
      message: expect.stringContaining("closed"),
    });
  });

  it("never leaves out a name that is no UTF-8", async (context) => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-inputs-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const name = Buffer.concat([Buffer.from(`${folder}/b`), Buffer.from([0xff])]);
    await writeFile(name, "{}").catch(() => context.skip("names are UTF-8 here"));
    const refused = { code: "INPUT_UNREADABLE", hint: "rename the file" };
    await expect(expandInputs(sources(join(folder, "b*")), "/")).rejects.toMatchObject(refused);
    const list = localInputs.list(folder)[Symbol.asyncIterator]();
    await expect(list.next()).rejects.toMatchObject(refused);
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
    ["empty", "INPUT_MISSING", /by a glob/],
    ["notes.md", "INPUT_FORMAT", /set input\.format/],
    ["ftp://host/x.jsonl", "UNSUPPORTED", /this machine/],
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
    const found = await expandInputs(sources("*.jsonl", "deep/a.json"), root, { maxFiles: 5 });
    expect(found.length).toBe(5);
    const tooMany = { code: "INPUT_TOO_MANY_FILES" };
    await expect(expandInputs(sources("*.jsonl"), root, { maxFiles: 3 })).rejects.toMatchObject(
      tooMany,
    );
    await expect(
      expandInputs(sources("*.jsonl", "deep/a.json"), root, { maxFiles: 4 }),
    ).rejects.toMatchObject(tooMany);
  });
});
