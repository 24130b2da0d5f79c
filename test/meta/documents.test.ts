import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import { describe, expect, it } from "vitest";
import { anchorsOf, blocksOf, documents, linksOf } from "./markdown.ts";
import { root } from "./source-tree.ts";

/** What a reader is promised. */
const required = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs/errors.md"];

describe("documents", () => {
  const all = documents();

  it("are there", () => {
    const paths = all.map(({ path }) => path);
    expect(required.filter((path) => !paths.includes(path))).toEqual([]);
    expect(paths.filter((path) => path.startsWith("docs/")).length).toBeGreaterThanOrEqual(5);
  });

  it("link to files and headings that exist", () => {
    const links = all.flatMap((document) =>
      linksOf(document).map((link) => ({ document, ...link })),
    );
    expect(links.length).toBeGreaterThanOrEqual(10);
    const broken = links.filter(({ document, target, anchor }) => {
      const path = target ? posix.join(posix.dirname(document.path), target) : document.path;
      if (!existsSync(join(root, path))) return true;
      if (anchor === undefined || statSync(join(root, path)).isDirectory()) return false;
      return !anchorsOf(readFileSync(join(root, path), "utf8")).has(anchor);
    });
    expect(
      broken.map(({ document, target, anchor }) => `${document.path}: ${target}#${anchor ?? ""}`),
    ).toEqual([]);
  });

  it("name for each line of trust a test that exists", () => {
    const { text } = all.find(({ path }) => path === "docs/security.md")!;
    const lines = text.split("\n").filter((line) => /^\| (?!---|what \|)/.test(line));
    expect(lines.length).toBeGreaterThanOrEqual(10);
    const untested = lines.filter((line) => {
      const [, path = "", title] = /`(test\/\S+)`: (.+?) \|$/.exec(line) ?? [];
      if (title === undefined || !existsSync(join(root, path))) return true;
      const titles = readFileSync(join(root, path), "utf8").match(/\(\s*"[^"\n]+",/g) ?? [];
      return !titles.some((each) => each.includes(title));
    });
    expect(untested).toEqual([]);
  });

  it("list the rooms of a run", () => {
    const { text } = all.find(({ path }) => path === "ARCHITECTURE.md")!;
    const [, rooms = ""] = /\n {2}run\/.*\n((?: {4}.*\n)+)/.exec(text) ?? [];
    const listed = rooms.match(/\b[a-z-]+(?=\/|\.ts\b)/g);
    const standing = readdirSync(join(root, "src/run")).map((name) => name.replace(".ts", ""));
    expect(listed?.toSorted()).toEqual(standing.toSorted());
  });

  it("name npm scripts that exist", () => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      scripts: Record<string, string>;
    };
    const named = all.flatMap(({ path, text }) =>
      [...text.matchAll(/\bnpm run ([a-z:-]+)/g)].map((match) => ({ path, script: match[1]! })),
    );
    expect(named.length).toBeGreaterThanOrEqual(2);
    expect(named.filter(({ script }) => !(script in scripts))).toEqual([]);
  });

  it("say in README how the tests run, in the words of continuous integration", () => {
    const readme = readFileSync(join(root, "README.md"), "utf8");
    const script = readFileSync(join(root, ".ci/run"), "utf8");
    expect(readme).toContain("npm ci && npm test");
    expect(script).toContain("npm ci && npm test");
  });

  it("have blocks that close, and marks that stand before a block", () => {
    for (const document of all) {
      const marks = document.text.match(/^\s*<!--\s*(run|file:.*)\s*-->\s*$/gm) ?? [];
      const taken = blocksOf(document).filter(({ task }) => task);
      expect(taken.length, document.path).toBe(marks.length);
    }
  });

  it("are read as they are meant", () => {
    const text = [
      "See [a](docs/a.md#one) and `[b](not.md)`.",
      "<!-- run -->",
      "```sh",
      "sluice --version",
      "```",
      "<!-- file: x.jsonl -->",
      "",
      "```json",
      '{"a": 1}',
      "```",
      "```text",
      "[c](no-link.md)",
      "```",
    ].join("\n");
    expect(linksOf({ text })).toEqual([{ target: "docs/a.md", anchor: "one" }]);
    const blocks = blocksOf({ path: "x.md", text });
    expect(blocks.map(({ task }) => task)).toEqual([{ run: true }, { file: "x.jsonl" }, undefined]);
    expect(blocks[1]!.text).toBe('{"a": 1}\n');
    expect(anchorsOf("## The `job` file: keys\n").has("the-job-file-keys")).toBe(true);
  });
});
