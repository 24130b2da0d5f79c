import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { InputSource } from "../../../src/data/inputs.ts";
import { inputStores } from "../../../src/data/sources/open.ts";
import { temporaryFolder } from "../../engines/models/context.ts";
import { sourceContext, webServer } from "./web-server.ts";

/** A folder with a list, `batches/0.txt`, and files that it may name. */
async function folderWith(list: string): Promise<string> {
  const folder = await temporaryFolder();
  await mkdir(join(folder, "batches"));
  await mkdir(join(folder, "data"));
  for (const name of ["batches/a.jsonl", "data/b.jsonl", "data/c d.json", "data/d;e.txt"]) {
    await writeFile(join(folder, name), "{}\n");
  }
  await writeFile(join(folder, "batches/0.txt"), list);
  return folder;
}

const expand = (folder: string, changes: Partial<InputSource> = {}, maxFiles?: number) =>
  inputStores(sourceContext()).expand(
    [{ path: "batches/0.txt", list: true, maxLineBytes: 1000, ...changes }],
    folder,
    maxFiles === undefined ? {} : { maxFiles },
  );

describe("a list of files", () => {
  it("names files by relative and absolute paths, addresses and globs, in order", async () => {
    const { origin } = await webServer((_request, response) => {
      response.writeHead(200, { "content-length": "5" }).end("{}\n\n\n".slice(0, 5));
    });
    const folder = await folderWith("");
    const lines = [
      "# what the first machine does",
      `${origin}/far.jsonl`,
      "",
      "../data/c d.json",
      `  ${folder}/data/b.jsonl\r`,
      "a.jsonl",
      "../data/*.json*",
    ];
    await writeFile(join(folder, "batches/0.txt"), lines.join("\n"));
    const found = await expand(folder);
    expect(found.map(({ path }) => path.replace(folder, ""))).toEqual([
      `${origin}/far.jsonl`,
      "/data/c d.json",
      "/data/b.jsonl",
      "/batches/a.jsonl",
      "/data/b.jsonl",
      "/data/c d.json",
    ]);
    expect(found.map(({ format }) => format)).toEqual([
      "jsonl",
      "json",
      "jsonl",
      "jsonl",
      "jsonl",
      "json",
    ]);
  });

  it("says where results go, and its prefixes stand for other places", async () => {
    const list = "/input/b.jsonl;/output/b.out\n/input/deep/b.jsonl ; x.out\na.jsonl\n";
    const folder = await folderWith(list);
    const prefixes = {
      "/input/": `${folder}/nowhere/`,
      "/input/deep/": "../data/",
      "/input/b": `${folder}/data/b`,
      "/output/": "s3://results/",
    };
    const found = await expand(folder, { prefixes, format: "text", id: "key" });
    const file = { format: "text", id: "key", source: 0 };
    expect(found).toMatchObject([
      { path: `${folder}/data/b.jsonl`, output: "s3://results/b.out", ...file },
      { path: `${folder}/data/b.jsonl`, output: "x.out", ...file },
      { path: `${folder}/batches/a.jsonl`, ...file },
    ]);
    expect(found[2]).not.toHaveProperty("output");
  });

  it("lies on a web server, and its paths beside it", async () => {
    const { origin, requests } = await webServer((request, response) => {
      const text = request.url?.startsWith("/b/0.txt") ? "x/one.jsonl\n../two.jsonl\n" : "{}\n";
      response.writeHead(200, { "content-length": text.length }).end(text);
    });
    const found = await expand("/", { path: `${origin}/b/0.txt?v=1` });
    expect(found.map(({ path }) => path)).toEqual([
      `${origin}/b/x/one.jsonl`,
      `${origin}/two.jsonl`,
    ]);
    expect(requests.some(({ url }) => url === "/b/x/one.jsonl")).toBe(true);
  });

  it("on a web server names no files of this machine, but where the job maps them", async () => {
    const folder = await folderWith("");
    let list = "";
    const { origin } = await webServer((request, response) => {
      const text = request.url === "/b/0.txt" ? list : "{}\n";
      response.writeHead(200, { "content-length": text.length }).end(text);
    });
    const path = `${origin}/b/0.txt`;
    for (const named of [`${folder}/batches/a.jsonl`, "/etc/passwd", "/up/../../../etc/passwd"]) {
      list = `x.jsonl\n${named}\n`;
      const prefixes = { "/up/": `${folder}/data/` };
      await expect(expand("/", { path, format: "text", prefixes })).rejects.toMatchObject({
        code: "INPUT_UNREADABLE",
        message: expect.stringContaining("a file of this machine"),
        place: { file: path, line: 2 },
        hint: expect.stringContaining("input.prefixes"),
      });
    }
    list = "/up/b.jsonl\n";
    const found = await expand("/", { path, prefixes: { "/up/": `${folder}/data/` } });
    expect(found).toMatchObject([{ path: `${folder}/data/b.jsonl` }]);
  });

  it.each([
    ["a.jsonl\n\nb.jsonl\n", "INPUT_MISSING", 3],
    ["a.jsonl\n../data\n", "INPUT_FORMAT", 2],
    ["../data/b.jsonl;\n", "INPUT_UNREADABLE", 1],
    [";out\n", "INPUT_UNREADABLE", 1],
    ["a.jsonl\nftp://x/y.jsonl", "UNSUPPORTED", 2],
    [`a.jsonl\n${"x".repeat(20_000)}`, "INPUT_UNREADABLE", 2],
  ])("that is wrong is told with its line: %#", async (list, code, line) => {
    const folder = await folderWith(list);
    const file = join(folder, "batches/0.txt");
    await expect(expand(folder)).rejects.toMatchObject({ code, place: { file, line } });
  });

  it("says each fault once", async () => {
    const folder = await folderWith("a.json\n");
    const error = await expand(folder).catch((thrown) => thrown);
    const list = join(folder, "batches/0.txt");
    const path = join(folder, "batches/a.json");
    expect(error.message).toBe(`no input file matches: ${path} (${list}:1)`);
    expect(error.hint).toBe(`did you mean ${join(folder, "batches/a.jsonl")}?`);
  });

  it("that is no text, or names too many files, is refused", async () => {
    const folder = await folderWith("../data/*\na.jsonl\n");
    await expect(expand(folder, { format: "text" }, 3)).rejects.toMatchObject({
      code: "INPUT_TOO_MANY_FILES",
    });
    await writeFile(join(folder, "batches/0.txt"), Buffer.from([0x61, 0xff, 0x0a]));
    await expect(expand(folder)).rejects.toMatchObject({ code: "INPUT_UNREADABLE" });
    await expect(expand(folder, { path: "batches/*" })).rejects.toMatchObject({
      code: "INPUT_UNREADABLE",
    });
  });

  it("without a path in it has no files", async () => {
    expect(await expand(await folderWith("# nothing yet\n"))).toEqual([]);
  });
});
