import { readFileSync } from "node:fs";
import { join } from "node:path";
import { committedFiles } from "./committed.ts";
import { root } from "./source-tree.ts";

/** A fenced block of a document. */
export interface Block {
  /** The document, from the root. */
  path: string;
  /** Line of the opening fence, from 1. */
  line: number;
  language: string;
  text: string;
  /** What the comment before it asks for: run it, or write it to a file first. */
  task?: { run: true } | { file: string };
}

/** The project's documents. */
export function documents(): { path: string; text: string }[] {
  return committedFiles()
    .filter((path) => path.endsWith(".md"))
    .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
}

/**
 * The fenced blocks of a document. `<!-- run -->` on the line before a block marks it to be
 * executed, `<!-- file: NAME -->` to be written as NAME where later blocks of the document run.
 */
export function blocksOf({ path, text }: { path: string; text: string }): Block[] {
  const blocks: Block[] = [];
  const lines = text.split("\n");
  for (let index = 0; index < lines.length; index++) {
    const fence = /^(\s*)(`{3,})(\w*)/.exec(lines[index]!);
    if (!fence) continue;
    const end = lines.findIndex((line, at) => at > index && line.trim() === fence[2]);
    if (end < 0) throw new Error(`${path}:${index + 1}: the block is never closed`);
    const indent = fence[1]!.length;
    const body = lines.slice(index + 1, end).map((line) => line.slice(indent));
    blocks.push({
      path,
      line: index + 1,
      language: fence[3]!,
      text: `${body.join("\n")}\n`,
      task: taskBefore(lines, index),
    });
    index = end;
  }
  return blocks;
}

function taskBefore(lines: readonly string[], fence: number): Block["task"] {
  let at = fence - 1;
  while (at >= 0 && lines[at]!.trim() === "") at--;
  const comment = /^\s*<!--\s*(run|file:\s*(\S+))\s*-->\s*$/.exec(lines[at] ?? "");
  if (!comment) return undefined;
  return comment[2] === undefined ? { run: true } : { file: comment[2] };
}

/** Relative links of a document, without their anchors. */
export function linksOf({ text }: { text: string }): { target: string; anchor?: string }[] {
  const prose = text
    .replaceAll(/^(\s*)(`{3,})[\s\S]*?^\s*\2\s*$/gm, "")
    .replaceAll(/`[^`\n]*`/g, "");
  const targets = [...prose.matchAll(/\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g)].map(
    (m) => m[1]!,
  );
  targets.push(...[...prose.matchAll(/^\[[^\]]+\]:\s+(\S+)/gm)].map((match) => match[1]!));
  return targets
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => {
      const [file, anchor] = target.split("#");
      return { target: file!, ...(anchor ? { anchor } : {}) };
    });
}

/** The anchors that a document's headings make, in the way of code forges. */
export function anchorsOf(text: string): Set<string> {
  const headings = [...text.matchAll(/^#{1,6}\s+(.*)$/gm)].map((match) => match[1]!);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
        .trim()
        .replaceAll(/\s/g, "-"),
    ),
  );
}
