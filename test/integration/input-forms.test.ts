import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { jsonLinesIn } from "./json-lines.ts";

/** A folder, and the packed program in it; each run has an output of its own. */
function folderOf(files: Readonly<Record<string, string | Buffer>>) {
  const folder = scratchFolder();
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  let runs = 0;
  return async (...parameters: string[]) => {
    const output = `out${runs++}`;
    const ask = ["--model", "fake", "--prompt", "Say {{ text }}", "--output", output];
    const { code, stderr, stdout } = await runSluice(["run", ...ask, ...parameters], folder);
    const texts = jsonLinesIn(join(folder, output)).map(({ text }) => text);
    const tasks = () => readFileSync(join(folder, output, "_manifest.json"), "utf8");
    return { code, stderr, stdout, texts, tasks };
  };
}

/** Rows of which some have characters beyond ASCII, more than a chunk of reading together. */
const many = Array.from({ length: 4000 }, (_, id) => `${id} – Käse für 3 € ${"x".repeat(300)}`);

const utf16 = (text: string, isBigEndian: boolean, hasMark: boolean) => {
  const bytes = Buffer.from(`${hasMark ? "\uFEFF" : ""}${text}`, "utf16le");
  return isBigEndian ? bytes.swap16() : bytes;
};

/** As Windows writes it: ä, ü, € and – are one byte each. */
const windows1252 = (text: string) =>
  Buffer.from(text.replaceAll("€", "\x80").replaceAll("–", "\x96"), "latin1");

describe("files that are written otherwise, through the packed program", () => {
  it("have another delimiter", async () => {
    const texts = ["a;b", "c"];
    const run = folderOf({
      "semicolons.csv": 'id;text\n1;"a;b"\n2;c\n',
      "bars.csv": "id|text\n1|a;b\n2|c\n",
      "tabs.csv": "id\ttext\n1\ta;b\n2\tc\n",
      "rows.jsonl": '{"text": "a"}\n',
    });
    for (const [file, delimiter] of [
      ["semicolons", ";"],
      ["bars", "|"],
      ["tabs", "tab"],
    ]) {
      const named = ["--input", `${file}.csv`, "--input.delimiter", delimiter!];
      expect((await run(...named)).texts).toEqual(texts);
    }
    const { stderr, code } = await run("--input", "bars.csv");
    expect(stderr).toContain('set input.delimiter to "|"');
    expect(code).toBe(65);
    const other = await run("--input", "rows.jsonl", "--input.delimiter", ";");
    expect(other.stderr).toContain("jsonl has no delimiter");
  });

  it("have another encoding, marked or not, also compressed", async () => {
    const csv = `text\r\n${many.join("\r\n")}\r\n`;
    const run = folderOf({
      "windows.csv": windows1252(csv),
      "windows.csv.gz": gzipSync(windows1252(csv)),
      "little.csv": utf16(csv, false, true),
      "big.csv": utf16(csv, true, true),
      "torn.csv": utf16(csv, false, true).subarray(0, -1),
      "bare.csv": utf16(csv, true, false),
    });
    for (const [file, encoding] of [
      ["windows.csv", "windows-1252"],
      ["windows.csv.gz", "Windows-1252"],
      ["little.csv", "utf-16"],
      ["big.csv", "UTF-16"],
      ["bare.csv", "utf-16be"],
    ] as const) {
      const { texts, stderr } = await run("--input", file, "--input.encoding", encoding);
      expect(texts, `${file} ${stderr}`).toEqual(many);
    }
    const refused = await run("--input", "little.csv");
    expect(refused.stderr).toContain("set input.encoding to utf-16");
    const torn = await run("--input", "torn.csv", "--input.encoding", "utf-16");
    expect(torn.stderr).toContain("bytes are not utf-16");
    expect(torn.code).toBe(65);
    expect((await run("--input", "windows.csv", "--input.encoding", "klingon")).code).toBe(64);
  });

  it("have their rows within an object, cut into tasks as any", async () => {
    const rows = many.map((text, id) => ({ id, text }));
    const decoy = { items: [{ text: "no row" }], text: '"items": [' };
    const file = { version: 2, decoy, data: { note: "[{", items: rows, more: [1] }, last: {} };
    const run = folderOf({ "a.json": JSON.stringify(file, null, 1), "b.json": "[1]" });
    const parameters = ["--input", "a.json", "--shard.rows", "700"];
    const { texts, tasks } = await run(...parameters, "--input.records", "data.items");
    expect(texts).toEqual(many);
    expect(tasks()).toContain("part-00005.jsonl");
    const unknown = await run(...parameters, "--input.records", "data.item");
    expect(unknown.stderr).toContain("it has no key data.item; did you mean items?");
    const object = await run(...parameters, "--input.records", "data");
    expect(object.stderr).toContain("data is an object, not a list");
    const list = await run("--input", "b.json", "--input.records", "data");
    expect(list.stderr).toContain("it is a list at its top");
    expect([unknown.code, object.code, list.code]).toEqual([65, 65, 65]);
  });

  it("are all files of a folder, if they are of one format", async () => {
    const run = folderOf({
      "rows/b.jsonl": '{"text": "b"}\n',
      "rows/a/c.jsonl": '{"text": "c"}\n',
      "rows/README.md": "# what this is",
      "rows/_SUCCESS": "{}",
      "rows/.hidden.jsonl": '{"text": "hidden"}\n',
      "mixed/a.jsonl": '{"text": "a"}\n',
      "mixed/b.csv": "text\nb\n",
      "letters/a.md": "Dear A,\nthanks",
      "letters/b.md": "Dear B",
      "empty/notes": "",
    });
    const { texts, stderr } = await run("--input", "rows");
    expect(texts).toEqual(["c", "b"]);
    expect(stderr).toContain("1 file is left out of the input's folder");
    const mixed = await run("--input", "mixed/");
    expect(mixed.stderr).toContain("jsonl (a.jsonl), csv (b.csv)");
    expect(mixed.code).toBe(65);
    const letters = await run("--input", "letters", "--input.format", "text-file");
    expect(letters.texts).toEqual(["Dear A,\nthanks", "Dear B"]);
    expect((await run("--input", "empty")).stderr).toContain("no file of a known format");
  });

  it("say that lines of text become rows, unless the job says so", async () => {
    const run = folderOf({ "notes.txt": "one\ntwo\n" });
    const told = "1 file of text is read line by line";
    const { texts, stderr } = await run("--input", "notes.txt");
    expect(texts).toEqual(["one", "two"]);
    expect(stderr).toContain(told);
    expect(stderr).toContain("set input.format to text-file");
    const meant = await run("--input", "notes.txt", "--input.format", "text");
    expect(meant.stderr).not.toContain(told);
  });
});
