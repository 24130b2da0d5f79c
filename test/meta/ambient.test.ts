import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { globalUses } from "./global-uses.ts";
import { lineAt, parseSource, root, type SourceFile, sourceFiles, walk } from "./source-tree.ts";

/** Programs: they are started, own their process, and hand its parts down. */
const programs = [/^src\/cli\//, /^src\/engines\/host\/main\.ts$/];
const clock = /^src\/foundation\/clock\.ts$/;
const random = /^src\/foundation\/random\.ts$/;
const logger = /^src\/foundation\/logger\.ts$/;

/** Where each effect may be taken from the air. Everywhere else it is a parameter. */
const allowed: Record<string, RegExp[]> = {
  process: programs,
  console: [...programs, logger],
  fetch: [],
  "Date.now": [clock],
  "new Date()": [clock],
  "Date()": [clock],
  "performance.now": [clock],
  "performance.timeOrigin": [clock],
  setTimeout: [clock],
  setInterval: [clock],
  setImmediate: [clock],
  "AbortSignal.timeout": [clock],
  "Math.random": [random],
  "crypto.randomUUID": [random],
  "crypto.getRandomValues": [random],
};

/** Modules that hold the same effects under other names; `named` limits it to those exports. */
const effectModules: { module: RegExp; named?: RegExp; allowed: RegExp[] }[] = [
  { module: /^(node:)?process$/, allowed: programs },
  { module: /^(node:)?timers(\/promises)?$/, allowed: [clock] },
  { module: /^(node:)?console$/, allowed: [logger] },
  { module: /^(node:)?crypto$/, named: /^random/, allowed: [random] },
  { module: /^(node:)?perf_hooks$/, named: /^performance$/, allowed: [clock] },
];

/** Exceptions, each with its reason: `path` → effects. */
const exceptions: Record<string, { effects: string[]; reason: string }> = {
  "src/api/this-process.ts": {
    effects: ["process"],
    reason: "a program that imports sluice has no command line that could hand its process down",
  },
  "src/cli/code-cache.ts": {
    effects: ["performance.now", "setTimeout"],
    reason: "it loads the program, clock included",
  },
  "src/data/storage/temporary-names.ts": {
    effects: ["node:crypto"],
    reason: "names of temporary files must differ between processes, and decide nothing",
  },
  "src/dataset/print-rows.ts": {
    effects: ["process"],
    reason: "show() prints for a program that has no command line to hand its output down",
  },
  "src/testing/fake-server-main.ts": {
    effects: ["process", "console"],
    reason: "a program: it is started by itself",
  },
};

/** The effects of a file with their lines, allowed or not. */
function effectsOf(file: SourceFile): { effect: string; line: number; places: RegExp[] }[] {
  const found = globalUses(file, Object.keys(allowed)).map(({ name, line }) => ({
    effect: name,
    line,
    places: allowed[name]!,
  }));
  walk(file.program, (node) => {
    if (node.type !== "ImportDeclaration") return;
    const module = (node.source as { value: string }).value;
    const rule = effectModules.find((each) => each.module.test(module));
    if (!rule || !importsName(node.specifiers, rule.named)) return;
    found.push({ effect: module, line: lineAt(file, node.start), places: rule.allowed });
  });
  return found;
}

function importsName(specifiers: unknown, named: RegExp | undefined): boolean {
  if (!named) return true;
  return (specifiers as { imported?: { name: string } }[]).some(
    // A namespace import holds every name.
    ({ imported }) => imported === undefined || named.test(imported.name),
  );
}

function violations(file: SourceFile): string[] {
  return effectsOf(file)
    .filter(({ places }) => !places.some((place) => place.test(file.path)))
    .filter(({ effect }) => !exceptions[file.path]?.effects.includes(effect))
    .map(({ effect, line }) => `${file.path}:${line}: ${effect}`);
}

describe("ambient effects", () => {
  const files = sourceFiles("src");

  it("sees the tree, and the effects where they belong", () => {
    expect(files.length).toBeGreaterThanOrEqual(40);
    const effects = files.flatMap(effectsOf).map(({ effect }) => effect);
    expect(effects).toEqual(expect.arrayContaining(["Date.now", "setTimeout", "process"]));
  });

  it("are taken only at the edge", () => {
    expect(files.flatMap(violations)).toEqual([]);
  });

  it("has no exception that nothing needs", () => {
    const used = files.filter(({ path }) => path in exceptions).map(({ path }) => path);
    expect(used).toEqual(Object.keys(exceptions));
  });

  it("stand in ARCHITECTURE where they are of the process", () => {
    const text = readFileSync(join(root, "ARCHITECTURE.md"), "utf8");
    const [sentence = ""] = /`process` is used only .*?\. /s.exec(text) ?? [];
    const named = [...sentence.matchAll(/`([\w/-]+[/.][\w.]*)`/g)].map(([, path]) => `src/${path}`);
    const using = files
      .filter((file) => effectsOf(file).some(({ effect }) => effect === "process"))
      .map(({ path }) => named.find((name) => path.startsWith(name)) ?? path);
    expect([...new Set(using)].toSorted()).toEqual(named.toSorted());
  });

  it("nothing calls process.exit, save in one place: buffered output would be lost", () => {
    const exits: string[] = [];
    for (const file of sourceFiles("src", "scripts", "bench", "examples")) {
      walk(file.program, (node) => {
        if (node.type !== "MemberExpression") return;
        const text = file.text.slice(node.start, node.end);
        if (/^process\s*\??\.\s*(exit|reallyExit|abort)$/.test(text)) {
          exits.push(`${file.path}:${lineAt(file, node.start)}: ${text}`);
        }
      });
    }
    // No signal ends the first process of a container, not even its own.
    expect(exits).toEqual([expect.stringMatching(/^src\/cli\/main\.ts:\d+: process\.exit$/)]);
  });

  it("catches effects under any spelling, and passes local names", () => {
    const text = [
      "const now = Date.now();",
      "const today = new Date();",
      "globalThis.setTimeout(run, 1);",
      "const { env } = process;",
      'import { randomUUID } from "node:crypto";',
      "const pick = Math['random']();",
    ].join("\n");
    expect(violations(parseSource("src/run/planted.ts", text))).toHaveLength(6);
    const fine = [
      'import { createHash } from "node:crypto";',
      "const day = new Date(0);",
      "function ask(fetch: () => void, options: { process: string }) { fetch(); options.process; }",
      "const record = { process: 1, console: 2 };",
    ].join("\n");
    expect(violations(parseSource("src/run/fine.ts", fine))).toEqual([]);
  });
});
