import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { errorTable, exitCodes } from "../../src/foundation/error-table.ts";
import { root, type SyntaxNode, sourceFile, sourceFiles, walk } from "./source-tree.ts";

const codes = Object.keys(errorTable).sort();
const codeForm = /^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$/;

/** Codes that docs/errors.md describes: first cell of a table's row, or a heading. */
function documentedCodes(markdown: string): string[] {
  const found = markdown.split("\n").flatMap((line) => {
    const match = /^(?:\|\s*|#+\s+)`?([A-Z][A-Z0-9_]+)`?\s*(?:\||$)/.exec(line);
    return match && codeForm.test(match[1]!) ? [match[1]!] : [];
  });
  return found.sort();
}

/** The keys of the table as they are written, so that one written twice shows. */
function writtenKeys(): string[] {
  const keys: string[] = [];
  walk(sourceFile("src/foundation/error-table.ts").program, (node) => {
    if (node.type !== "VariableDeclarator") return;
    if ((node.id as { name?: string }).name !== "errorTable") return;
    walk(node, (inner) => {
      const name = inner.type === "Property" && ((inner.key as SyntaxNode).name as string);
      if (name && codeForm.test(name)) keys.push(name);
    });
  });
  return keys;
}

/** Every code that stands as a string somewhere in src, the table itself aside. */
function usedCodes(): Set<string> {
  const used = new Set<string>();
  for (const file of sourceFiles("src")) {
    walk(file.program, (node) => {
      if (node.type === "Literal" && typeof node.value === "string") used.add(node.value);
    });
  }
  return used;
}

describe("error table", () => {
  it("is seen", () => {
    expect(codes.length).toBeGreaterThanOrEqual(40);
    expect(writtenKeys().length).toBeGreaterThanOrEqual(40);
  });

  it("has each code once", () => {
    expect(writtenKeys().sort()).toEqual(codes);
  });

  it("has codes in one form", () => {
    expect(codes.filter((code) => !codeForm.test(code))).toEqual([]);
  });

  it("says what happened and what to do, in one line each", () => {
    const weak = Object.entries(errorTable).filter(([, { message, hint }]) =>
      [message, hint].some((text) => text.trim().length < 8 || /[\n.]$|\n/.test(text)),
    );
    expect(weak.map(([code]) => code)).toEqual([]);
  });

  it("ends commands with exit codes that have a name", () => {
    const known = new Set<number>(Object.values(exitCodes));
    const odd = Object.entries(errorTable).filter(([, { exitCode }]) => !known.has(exitCode));
    expect(odd.map(([code]) => code)).toEqual([]);
    expect(known.size).toBe(Object.keys(exitCodes).length);
  });

  it("holds no code that nothing raises", () => {
    const used = usedCodes();
    expect(codes.filter((code) => !used.has(code))).toEqual([]);
  });

  it("is docs/errors.md, both ways", () => {
    const markdown = readFileSync(join(root, "docs/errors.md"), "utf8");
    expect(documentedCodes(markdown)).toEqual(codes);
    const unsaid = Object.entries(errorTable).filter(
      ([, { message }]) => !markdown.includes(message),
    );
    expect(unsaid.map(([code]) => code)).toEqual([]);
  });

  it("reads a documented code in a table and in a heading", () => {
    const markdown = "| `ONE_CODE` | text |\n### `TWO_CODE`\n`NOT_THIS` in prose\n| HF_ | x |";
    expect(documentedCodes(markdown)).toEqual(["ONE_CODE", "TWO_CODE"]);
  });
});
