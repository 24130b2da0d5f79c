import { parseSync } from "oxc-parser";
import { describe, expect, it } from "vitest";
import { drawnMutations } from "../../scripts/mutants/drawn.ts";
import { mutated } from "../../scripts/mutants/main.ts";
import { mutations } from "../../scripts/mutants/mutations.ts";
import { filesUnder, sourceFile } from "./source-tree.ts";

describe("the bugs of npm run mutants", () => {
  it("are many, each told apart", () => {
    expect(mutations.length).toBeGreaterThanOrEqual(63);
    expect(new Set(mutations.map(({ what }) => what)).size).toBe(mutations.length);
  });

  it("can be written into the sources as they are now, and leave them readable", () => {
    const broken = mutations.filter((mutation) => {
      const source = mutated(sourceFile(mutation.file).text, mutation);
      return parseSync(mutation.file, source).errors.length > 0;
    });
    expect(broken).toEqual([]);
  });

  it("name tests that are there", () => {
    const tests = new Set(filesUnder("test", (path) => path.endsWith(".test.ts")));
    const named = mutations.flatMap((mutation) => mutation.tests);
    expect(named.filter((test) => !tests.has(test))).toEqual([]);
  });
});

describe("bugs that a seed draws", () => {
  it("are the same each time, at most one a file, and leave the sources readable", () => {
    const drawn = drawnMutations(7, 60);
    expect(drawnMutations(7, 60)).toEqual(drawn);
    expect(drawnMutations(8, 60)).not.toEqual(drawn);
    expect(new Set(drawn.map(({ file }) => file)).size).toBe(60);
    const broken = drawn.filter(({ file, start, end, replacement }) => {
      const { text } = sourceFile(file);
      return (
        parseSync(file, text.slice(0, start) + replacement + text.slice(end)).errors.length > 0
      );
    });
    expect(broken).toEqual([]);
  });
});
