import { describe, expect, it } from "vitest";
import { documents } from "./markdown.ts";
import { lineAt, parseSource, type SourceFile, sourceFiles, walk } from "./source-tree.ts";

/** A way of writing that readers stumble over, and what to write in its place. */
interface Stumble {
  pattern: RegExp;
  instead: string;
  /** Where it must not stand; default: anywhere. */
  places?: readonly Passage["place"][];
}

const list: readonly Stumble[] = [
  {
    pattern: /(?<!\bthere\s+)\b(?:are|is)\s+no\b(?!\s+(?:fewer|less|longer|more)\b)/gi,
    instead: '"is not a …", "means no …", or another verb; "there is no …" is fine',
  },
  { pattern: /(?:^|[.;:!?]\s+)of\s+which\b/gim, instead: "begin with the subject" },
  {
    pattern:
      /\b(?:a|all|are|as|beyond|code sees|many|nearest|no|of|other|the|to)\s+doubles?\b(?!\s+quotes?)/gi,
    instead: '"a number", "what JavaScript would round", "a 64-bit float"; or "duplicates"',
  },
  {
    pattern: /(?:^|[.;:!?|]\s+)Of\s+(?!course\b)/gm,
    instead: 'begin with the subject, or with "if", "for", "with"',
  },
  {
    pattern: /(?:^|[.,:;(]\s*|\b(?:by|for|from|of|to)\s+)who\b/gi,
    instead: 'a noun: "a process that …", "whoever …"',
    places: ["message"],
  },
];

/** Older words for what has one name now. */
const renamed: readonly Stumble[] = [
  {
    pattern: /\b(?:hungry|hunger|ruling coordinator|came to rule)\b/gi,
    instead: "the backlog is low; leads, acquires leadership",
  },
  {
    pattern: /\b(?:takes?|took|gives?|keeps?|lost|record of) the rule\b/gi,
    instead: "acquires, gives up or loses leadership",
  },
  {
    pattern: /\b(?:go|goes|going) on\b/gi,
    instead: "continues",
    places: ["message"],
  },
  {
    pattern: /\b(?:about to be asked|(?:asks?|asked) (?:some|the same|these)? ?rows?)\b/gi,
    instead: "sends requests, processes rows",
    places: ["message"],
  },
];

/** Prompts that come from elsewhere, and texts of data that is there: each word counts. */
const foreign = new Set(["src/prompt/types/creative.ts", "examples/chat-chunks/make-chats.ts"]);

interface Passage {
  path: string;
  line: number;
  text: string;
  place: "document" | "message" | "comment";
}

/** Comments and texts of a program; a text with values in it, up to the first and between them. */
function passagesOf(file: SourceFile): Passage[] {
  const { path } = file;
  const place = path.startsWith("src/") ? "message" : "comment";
  const found = file.comments.map(({ start, end }): Passage => {
    // The margin does not belong to a sentence.
    const text = file.text.slice(start, end).replace(/\n[ \t]*\*?/g, "\n");
    return { path, line: lineAt(file, start), text, place: "comment" };
  });
  walk(file.program, (node) => {
    const { value } = node as { value?: unknown };
    const text =
      node.type === "Literal" && typeof value === "string"
        ? value
        : node.type === "TemplateElement"
          ? ((value as { cooked?: string }).cooked ?? "")
          : undefined;
    if (text) found.push({ path, line: lineAt(file, node.start), text, place });
  });
  return found;
}

function stumbles({ path, line, text, place }: Passage): string[] {
  const meant = [...list, ...renamed].filter(({ places }) => places?.includes(place) ?? true);
  return meant.flatMap(({ pattern, instead }) =>
    [...text.matchAll(pattern)].map(({ index, 0: found }) => {
      const at = line + text.slice(0, index).split("\n").length - 1;
      return `${path}:${at}: "${found.replace(/\s+/g, " ").trim()}": ${instead}`;
    }),
  );
}

describe("plain words", () => {
  it("stand in documents", () => {
    const passages = documents().map(
      ({ path, text }): Passage => ({ path, text, line: 1, place: "document" }),
    );
    expect(passages.length).toBeGreaterThanOrEqual(10);
    expect(passages.flatMap(stumbles)).toEqual([]);
  });

  it("stand in messages, hints, descriptions and comments", () => {
    const files = sourceFiles("src", "scripts", "bench", "examples");
    const passages = files.filter(({ path }) => !foreign.has(path)).flatMap(passagesOf);
    expect(passages.length).toBeGreaterThanOrEqual(1000);
    expect(passages.flatMap(stumbles)).toEqual([]);
  });

  it("are told from others, also across lines", () => {
    const text = [
      "/** What is",
      " * no row. There is no end, and it is no longer here.",
      " * Others are doubles. Of which one? Of rows in double quotes the limit doubles. */",
      'throw new Error("the hub gives it to who asked: check who may read it");',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a program
      "throw new Error(`${value} is no number`);",
      'throw new Error("Of two rows one");',
    ].join("\n");
    const found = passagesOf(parseSource("src/a.ts", text)).flatMap(stumbles);
    expect(found.map((each) => each.split(": ").slice(0, 2).join(" "))).toEqual([
      'src/a.ts:1 "is no"',
      'src/a.ts:3 ". Of which"',
      'src/a.ts:3 "are doubles"',
      'src/a.ts:3 ". Of"',
      'src/a.ts:3 "? Of"',
      'src/a.ts:4 "to who"',
      'src/a.ts:5 "is no"',
      'src/a.ts:6 "Of"',
    ]);
  });
});
