import { resultFormatOf } from "../../data/formats/result-format.ts";
import { nearest } from "../../foundation/suggest.ts";

/** The parts of a result file's name. */
export const placeholders = ["stem", "dir", "index", "id"] as const;
export type Placeholder = (typeof placeholders)[number];

const named = /\{([^{}]*)\}/g;
const placeholder = /\{(stem|dir|index|id)\}/g;

/** True for a path that names many files by placeholders, such as `out/{stem}.augmented.json`. */
export function isPattern(path: string): boolean {
  return path.search(placeholder) >= 0;
}

export function placeholdersOf(pattern: string): Placeholder[] {
  const found = [...pattern.matchAll(placeholder)].map(([, name]) => name as Placeholder);
  return [...new Set(found)];
}

/** True if each row has its own file. */
export function isPerRow(pattern: string): boolean {
  return placeholdersOf(pattern).some((name) => name === "index" || name === "id");
}

/** The folder at the start of a pattern, and the rest of it. */
export function splitPattern(path: string): { folder: string; pattern: string } {
  const end = path.lastIndexOf("/", path.search(placeholder));
  if (end < 0) return { folder: ".", pattern: path };
  return { folder: path.slice(0, end) || "/", pattern: path.slice(end + 1) };
}

/** The name of a file, with the value of each placeholder. */
export function filledPattern(pattern: string, values: Record<Placeholder, string>): string {
  const filled = pattern.replace(placeholder, (_all, name: Placeholder) => values[name]);
  // A file in the folder itself has an empty `{dir}`.
  return filled.replace(/\/{2,}/g, "/").replace(/^\//, "");
}

/** Equal for names that some file systems do not distinguish. */
export function seenAs(path: string): string {
  return path.normalize().toLowerCase();
}

/** The fault of a pattern, for people; undefined if it has none. */
export function patternProblem(pattern: string): string | undefined {
  const known = placeholders.map((name) => `{${name}}`).join(" ");
  const own = ownPart(pattern);
  for (const [all, name = ""] of own.matchAll(named)) {
    if ((placeholders as readonly string[]).includes(name)) continue;
    const meant = nearest(name, placeholders);
    return `has ${all}, which nothing stands for: ${meant ? `did you mean {${meant}}? ` : ""}there are ${known}`;
  }
  if (/[{}]/.test(own.replace(named, ""))) return `has a brace alone: there are ${known}`;
  if (!isPattern(pattern) || resultFormatOf(pattern)) return undefined;
  return "must end as the files are written: .jsonl, .json, .csv, .tsv or .parquet";
}

/** The last part of a whole path; its folders may have any name, even `{a,b}`. */
function ownPart(pattern: string): string {
  if (!/^(\/|[a-z][a-z0-9+.-]+:\/)/i.test(pattern)) return pattern;
  const at = pattern.search(placeholder);
  return pattern.slice(pattern.lastIndexOf("/", at < 0 ? undefined : at) + 1);
}
