import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseSync } from "oxc-parser";
import { describe, expect, it } from "vitest";
import { root, sourceFile } from "./source-tree.ts";

/** The public faces. Users rely on what stands here: a change of it is a release note. */
const faces = ["src/index.ts", "src/testing/index.ts"];

/** `export *` would let a name become public by accident. */
function exportedNames(path: string): string[] {
  const { module } = parseSync(path, sourceFile(path).text);
  return module.staticExports
    .flatMap(({ entries }) => entries)
    .map(({ exportName, isType }) => `${isType ? "type " : ""}${exportName.name ?? "*"}`)
    .sort();
}

describe("public face", () => {
  for (const path of faces) {
    it(`${path} exports these names`, async () => {
      const names = exportedNames(path);
      expect(names.length).toBeGreaterThanOrEqual(3);
      expect(names).not.toContain("*");
      const file = path
        .replace(/^src\//, "")
        .replaceAll("/", "-")
        .replace(/\.ts$/, ".txt");
      const snapshot = join(import.meta.dirname, "snapshots", file);
      await expect(`${names.join("\n")}\n`).toMatchFileSnapshot(snapshot);
      expect(existsSync(snapshot), "the snapshot is committed").toBe(true);
    });

    it(`${path} can be loaded, and nothing it exports is undefined`, async () => {
      const loaded = (await import(join(root, path))) as Record<string, unknown>;
      const values = exportedNames(path).filter((name) => !name.startsWith("type "));
      expect(Object.keys(loaded).sort()).toEqual(values);
      expect(Object.entries(loaded).filter(([, value]) => value === undefined)).toEqual([]);
    });
  }
});
