import { readFileSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import { describe, expect, it } from "vitest";
import { committedFiles } from "./committed.ts";
import { root } from "./source-tree.ts";

/** What must not be in the project: places of one machine, registries, keys. */
const forbidden: Record<string, RegExp> = {
  "a path of one machine": /(?<![\w.~-])\/(work\/(main|shared)|root\/\.?[a-z]|Users\/[a-z])/,
  "a package registry": /\bregistry\.[a-z0-9-]+\.[a-z]{2,}|\bpypi\.org\/simple|\bartifactory\b/i,
  "a lock file's address": /"resolved"\s*:/,
  "a private key": /-----BEGIN [A-Z ]*PRIVATE KEY/,
  "an access token": /\b(sk-[A-Za-z0-9]{32,}|hf_[A-Za-z0-9]{30,}|ghp_[A-Za-z0-9]{30,})\b/,
};

/** This file names what it looks for. */
const self = "test/meta/committed.test.ts";

const maxFileBytes = 1024 * 1024;
const badNames = /(^|-)(utils?|helpers?|common|misc|managers?|base|stuff)(-|$)/;
const kebabCase = /^[a-z0-9]+(-[a-z0-9]+)*$/;
const code = /^(src|test|bench|scripts)\/.*\.(ts|mjs|cjs)$/;

describe("committed files", () => {
  const paths = committedFiles();
  const texts = paths
    .filter((path) => path !== self)
    .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));

  it("are seen", () => {
    expect(paths.length).toBeGreaterThanOrEqual(80);
    expect(paths).toContain("package-lock.json");
    expect(paths.filter((path) => path.includes("node_modules/"))).toEqual([]);
  });

  for (const [what, pattern] of Object.entries(forbidden)) {
    it(`hold no ${what.replace(/^an? /, "")}`, () => {
      const found = texts.flatMap(({ path, text }) => {
        const match = pattern.exec(text);
        return match ? [`${path}: ${match[0]}`] : [];
      });
      expect(found).toEqual([]);
    });
  }

  it("are small", () => {
    const large = paths.filter((path) => statSync(join(root, path)).size > maxFileBytes);
    expect(large).toEqual([]);
  });

  it("are not what an editor or a patch left behind", () => {
    expect(paths.filter((path) => /\.(orig|rej|bak|tmp|swp)$|~$/.test(path))).toEqual([]);
  });

  it("have names that say what is in them, in kebab-case", () => {
    const files = paths.filter((path) => code.test(path));
    expect(files.length).toBeGreaterThanOrEqual(60);
    const odd = files.filter((path) => {
      const words = path.split("/").map((part) => part.replace(/(\.test)?\.(ts|mjs|cjs)$/, ""));
      return words.some((word) => badNames.test(word) || !kebabCase.test(word));
    });
    expect(odd).toEqual([]);
  });

  it("declare no I-prefixed interface and leave no work order behind", () => {
    const mark = /\b(TODO|FIXME|XXX)\b/;
    const found = texts
      .filter(({ path }) => code.test(path))
      .filter(({ text }) => mark.test(text) || /\binterface I[A-Z][a-z]/.test(text));
    expect(found.map(({ path }) => path)).toEqual([]);
  });

  it("end in a newline", () => {
    const ragged = texts.filter(
      ({ path, text }) =>
        /\.(ts|md|json|yaml|cjs|mjs)$/.test(path) &&
        !posix.dirname(path).includes("golden") &&
        text !== "" &&
        !text.endsWith("\n"),
    );
    expect(ragged.map(({ path }) => path)).toEqual([]);
  });
});
