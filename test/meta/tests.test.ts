import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  edgesOf,
  filesUnder,
  lineAt,
  root,
  type SourceFile,
  sourceFiles,
  walk,
} from "./source-tree.ts";

/**
 * Calls that would leave tests out without a reason, such as `it.skip`, `describe.only` and
 * `it.skipIf`. With one: `context.skip(condition, reason)` within the test.
 */
function silenced(file: SourceFile): string[] {
  const found: string[] = [];
  walk(file.program, (node) => {
    if (node.type !== "MemberExpression") return;
    const text = file.text.slice(node.start, node.end);
    if (/^(it|test|describe)\.(only|todo|skip|skipIf|runIf)$/.test(text)) {
      found.push(`${file.path}:${lineAt(file, node.start)}: ${text}`);
    }
  });
  return found;
}

describe("tests", () => {
  const tests = sourceFiles("test");
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    scripts: Record<string, string>;
  };

  it("are seen", () => {
    expect(tests.length).toBeGreaterThanOrEqual(30);
  });

  it("are named so that vitest runs them", () => {
    const asserting = tests.filter(({ program, path }) => {
      let calls = 0;
      walk(program, (node) => {
        if (node.type !== "CallExpression") return;
        const callee = node.callee as { type: string; name?: string };
        if (callee.type === "Identifier" && callee.name === "it") calls++;
      });
      return calls > 0 && !path.endsWith(".test.ts");
    });
    const suites = new Set(tests.flatMap(edgesOf).map(({ to }) => to));
    expect(asserting.map(({ path }) => path).filter((path) => !suites.has(path))).toEqual([]);
  });

  it("lie in folders, where a project of vitest takes them", () => {
    const top = filesUnder("test", (path) => /^test\/[^/]+\.test\.ts$/.test(path));
    expect(top).toEqual([]);
    expect(filesUnder("src", (path) => path.endsWith(".test.ts"))).toEqual([]);
  });

  it("start the program by test/sluice-program.ts alone, which is that of the package", () => {
    const starting = sourceFiles("test/integration", "test/peers", "test/chaos").flatMap((file) => {
      const named = /join\(root, "(?:bin\/sluice|src\/cli\/main)/.exec(file.text);
      return named ? [`${file.path}:${lineAt(file, named.index)}`] : [];
    });
    expect(starting).toEqual([]);
  });

  it("share modules in their process: unit tests mock none, and helpers hook into no first caller", () => {
    const sharing = tests.filter(
      ({ path }) => !/^test\/(integration|simulation|peers)\//.test(path),
    );
    const found = sharing.flatMap((file) => {
      const hook = file.path.endsWith(".test.ts") ? "" : "|^(?:before|after)(?:Each|All)\\(";
      const match = new RegExp(`\\bvi\\.(?:do)?[mM]ock\\(${hook}`, "m").exec(file.text);
      return match ? [`${file.path}:${lineAt(file, match.index)}: ${match[0]}`] : [];
    });
    expect(found).toEqual([]);
  });

  it("run by npm run test:long where a part of them runs there alone", () => {
    const long = sourceFiles("test/integration").filter(({ text }) => text.includes('/long.ts"'));
    const named = long.filter(({ path }) => path.endsWith(".test.ts")).map(({ path }) => path);
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((path) => !scripts["test:long"]!.includes(path))).toEqual([]);
    expect(scripts["test:long"]).toContain("TEST_SLUICE_LONG=1");
  });

  it("are set by variables named TEST_…: the program refuses one of its own that it does not know", () => {
    const refused = Object.values(scripts).flatMap(
      (text) => text.match(/(?<!\w)SLUICE_\w+=/g) ?? [],
    );
    expect(refused).toEqual([]);
  });

  it("are not switched off: a test that cannot run skips itself with a reason", () => {
    expect(tests.flatMap(silenced)).toEqual([]);
  });
});
