import { describe, expect, it } from "vitest";
import { type Edge, edgesOf, folderOf, parseSource, sourceFiles } from "./source-tree.ts";

/** A floor may import the floors below it; wings stand on one floor and never meet. */
const floors: Record<string, number> = {
  foundation: 0,
  data: 1,
  prompt: 1,
  engines: 1,
  telemetry: 1,
  run: 2,
  backends: 3,
  serve: 6,
  terminal: 4,
  api: 5,
  dataset: 6,
  cli: 7,
  testing: 5,
};

/** Files at the top of src and what they may import: folders of src, or nothing. */
const rootFiles: Record<string, (folder: string) => boolean> = {
  "src/index.ts": (folder) => folder !== "cli" && folder !== "testing",
  "src/entry.ts": () => false,
};

/**
 * Who may name implementations from outside their folder: registries (of engines, and of what a job
 * may say of each), openers, programs and the public face.
 */
const namers = /\/(registry|model-options|open|main)\.ts$|^src\/index\.ts$/;

/** Files that name an implementation and are no namer, each with its reason. */
const namerExceptions: Record<string, string> = {
  "src/engines/managed/description.ts": "a managed server can do what engine openai can",
  "src/engines/managed/options.ts":
    "servers take requests as for engine openai, and files as llama",
};

/**
 * Folders that are one implementation each, and what it needs: an engine, a backend. Backends of
 * schedulers stand on `joining/`.
 */
const implementationFolders = [
  /^src\/engines\/(?!batching\/|host\/|models\/|packages\/|weights\/)[^/]+\//,
  /^src\/backends\/(?!joining\/)[^/]+\//,
];

/** Folders of implementations that are one file each: those that the registry there imports. */
const implementationFiles = /^src\/data\/(storage|formats)\//;

function folderIn(path: string): string {
  return path.split("/").length > 2 ? path.split("/")[1]! : path;
}

/** Why the import is not allowed, or undefined. */
function violation({ from, to, line }: Edge): string | undefined {
  const [here, there] = [folderIn(from), folderIn(to)];
  const say = (reason: string) => `${from}:${line} imports ${to}: ${reason}`;
  if (!to.startsWith("src/")) return say("outside of src");
  if (from in rootFiles) return rootFiles[from]!(there) ? undefined : say("not for this file");
  if (here === there) return undefined;
  if (to === "src/entry.ts") return undefined;
  if (there === "src/index.ts") return say("the public face is for users");
  if (there === "testing") return say("testing is imported by nothing in src");
  const [floor, below] = [floors[here], floors[there]];
  if (floor === undefined || below === undefined) return say("a folder without a floor");
  return below < floor ? undefined : say("imports flow down only");
}

/** The folder or file that is the implementation which `path` belongs to. */
function implementationOf(path: string, registered: ReadonlySet<string>): string | undefined {
  for (const folder of implementationFolders) {
    const match = folder.exec(path);
    if (match) return match[0];
  }
  return registered.has(path) ? path : undefined;
}

/** What the registries of one-file implementations import to run, types aside. */
function registeredFiles(edges: readonly Edge[]): Set<string> {
  const own = edges.filter(
    ({ from, to, kind }) => kind !== "type" && namers.test(from) && folderOf(from) === folderOf(to),
  );
  return new Set(own.map(({ to }) => to).filter((path) => implementationFiles.test(path)));
}

describe("floors", () => {
  const files = sourceFiles("src");
  const edges = files.flatMap(edgesOf);

  it("sees the tree", () => {
    expect(files.length).toBeGreaterThanOrEqual(40);
    expect(edges.length).toBeGreaterThanOrEqual(60);
  });

  it("imports flow down only", () => {
    expect(edges.map(violation).filter((text) => text !== undefined)).toEqual([]);
  });

  it("only registries, openers and mains name implementations", () => {
    const registered = registeredFiles(edges);
    expect(registered.size).toBeGreaterThanOrEqual(3);
    const named = edges.filter(({ from, to }) => {
      const owner = implementationOf(to, registered);
      return owner !== undefined && !from.startsWith(owner) && !namers.test(from);
    });
    const unexcused = named.filter(({ from }) => !(from in namerExceptions));
    expect(unexcused.map(({ from, to, line }) => `${from}:${line} names ${to}`)).toEqual([]);
    const used = new Set(named.map(({ from }) => from));
    expect(Object.keys(namerExceptions).filter((path) => !used.has(path))).toEqual([]);
  });

  it("every folder of src has a floor", () => {
    const folders = new Set(files.map(({ path }) => folderIn(path)));
    const unknown = [...folders].filter((name) => !(name in floors) && !(name in rootFiles));
    expect(unknown).toEqual([]);
  });

  it("catches each kind of import that climbs", () => {
    const text = [
      'import { a } from "../run/plan.ts";',
      'import type { B } from "../engines/engine.ts";',
      'export * from "../cli/main.ts";',
      'const c = await import("../testing/index.ts");',
      'type D = import("../index.ts").D;',
      'import { e } from "../foundation/errors.ts";',
    ].join("\n");
    const planted = parseSource("src/data/planted.ts", text);
    const lines = edgesOf(planted).filter((edge) => violation(edge));
    expect(lines.map(({ line }) => line)).toEqual([1, 2, 3, 4, 5]);
  });
});
