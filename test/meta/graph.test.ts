import { existsSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { edgesOf, root, sourceFiles } from "./source-tree.ts";

/** What is started or imported from outside; everything in src is reachable from here. */
const entryPoints = [
  "src/index.ts",
  "src/testing/index.ts",
  "src/cli/main.ts",
  "src/cli/code-cache.ts",
  "src/data/formats/decoding-thread/thread-main.ts",
  "src/engines/host/main.ts",
  "src/testing/fake-server-main.ts",
];

/** Computed imports, which neither this test nor the compiler can follow, each with its reason. */
const computedImports: Record<string, string> = {
  "src/engines/user-module.ts": "the module with the user's own predictor or stage",
  "src/engines/llama/node-llama-cpp.ts": "an engine package, which lies outside of this one",
  "src/engines/transformers/transformers-js.ts": "an engine package, as above",
};

/** The first cycle found, as the files on it, or an empty list (depth first, three colours). */
function findCycle(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (file: string): string[] => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return [];
    path.push(file);
    for (const next of graph.get(file) ?? []) {
      const cycle = visit(next);
      if (cycle.length > 0) return cycle;
    }
    path.pop();
    done.add(file);
    return [];
  };
  for (const file of graph.keys()) {
    const cycle = visit(file);
    if (cycle.length > 0) return cycle;
  }
  return [];
}

function reachable(graph: ReadonlyMap<string, readonly string[]>, from: string[]): Set<string> {
  const seen = new Set<string>();
  for (const waiting = [...from]; waiting.length > 0; ) {
    const file = waiting.pop()!;
    if (seen.has(file)) continue;
    seen.add(file);
    waiting.push(...(graph.get(file) ?? []));
  }
  return seen;
}

describe("import graph", () => {
  const files = sourceFiles("src");
  const graph = new Map(files.map((file) => [file.path, edgesOf(file).map(({ to }) => to)]));

  it("sees the tree", () => {
    expect(files.length).toBeGreaterThanOrEqual(40);
    expect(files.filter(({ errors }) => errors.length > 0).map(({ path }) => path)).toEqual([]);
  });

  it("is loaded by Node as it stands: types strip off without leaving code", () => {
    const refused = files.filter(({ text }) => {
      try {
        stripTypeScriptTypes(text);
        return false;
      } catch {
        return true;
      }
    });
    expect(refused.map(({ path }) => path)).toEqual([]);
    expect(() => stripTypeScriptTypes("enum Planted { a }")).toThrow();
  });

  it("has no cycle, type imports included", () => {
    expect(findCycle(graph)).toEqual([]);
  });

  it("finds a planted cycle", () => {
    const planted = new Map([
      ["a", ["b"]],
      ["b", ["c", "d"]],
      ["c", []],
      ["d", ["b"]],
    ]);
    expect(findCycle(planted)).toEqual(["b", "d", "b"]);
  });

  it("has the entry points", () => {
    expect(entryPoints.filter((path) => !graph.has(path))).toEqual([]);
  });

  it("has no dead file", () => {
    const live = reachable(graph, entryPoints);
    expect([...graph.keys()].filter((path) => !live.has(path))).toEqual([]);
  });

  it("resolves every relative import", () => {
    const everywhere = sourceFiles("src", "test", "scripts", "bench", "examples");
    const dangling = everywhere
      .flatMap(edgesOf)
      .filter(({ to }) => !existsSync(join(root, to)))
      .map(({ from, to, line }) => `${from}:${line} imports ${to}`);
    expect(dangling).toEqual([]);
  });

  it("imports source by its .ts ending", () => {
    const endings = files
      .flatMap(edgesOf)
      .filter(({ to }) => !/\.(ts|json)$/.test(to))
      .map(({ from, to, line }) => `${from}:${line} imports ${to}`);
    expect(endings).toEqual([]);
  });

  it("computes no import path but where listed", () => {
    const computed = files.filter(({ imports }) =>
      imports.some(({ specifier }) => specifier === undefined),
    );
    expect(computed.map(({ path }) => path).sort()).toEqual(Object.keys(computedImports).sort());
  });
});
