/** A column of a table. */
export interface Column {
  title: string;
  /** Numbers read better on the right. Default `left`. */
  align?: "left" | "right";
  /** Longest cell, in characters; the rest is cut and ends in `…`. Default: no limit. */
  maxWidth?: number;
}

/**
 * Columns that a text takes on a terminal: wide characters (CJK, emoji) two, combining marks none.
 */
export function textWidth(text: string): number {
  let width = 0;
  for (const character of text) {
    const code = character.codePointAt(0)!;
    if (/\p{Mark}|\p{Cf}/u.test(character)) continue;
    width += isWide(code) ? 2 : 1;
  }
  return width;
}

function isWide(code: number): boolean {
  return (
    (code >= 0x1100 && code <= 0x115f) ||
    (code >= 0x2e80 && code <= 0xa4cf) ||
    (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe30 && code <= 0xfe6f) ||
    (code >= 0xff00 && code <= 0xff60) ||
    (code >= 0xffe0 && code <= 0xffe6) ||
    (code >= 0x1f300 && code <= 0x1faff) ||
    (code >= 0x20000 && code <= 0x3fffd)
  );
}

/** The text on one line, without control characters, cut to `width`; a cut text ends in `…`. */
export function clip(text: string, width: number): string {
  const line = text.replaceAll(/\p{Cc}+/gu, " ");
  if (textWidth(line) <= width) return line;
  let kept = "";
  let used = 0;
  for (const character of line) {
    const next = textWidth(character);
    if (used + next > width - 1) break;
    kept += character;
    used += next;
  }
  return width > 0 ? `${kept}…` : "";
}

/**
 * A text table: a line of titles, then a line for each row, with two spaces between the aligned
 * columns. No line is longer than `columns`: the last column is cut.
 *
 * @example
 * table(["task", right("rows")], [["0", "500"]]);
 */
export function table(
  titled: readonly (Column | string)[],
  rows: readonly (readonly string[])[],
  maxColumns = Number.POSITIVE_INFINITY,
): string[] {
  const columns = titled.map((each): Column => (typeof each === "string" ? { title: each } : each));
  const clipped = rows.map((row) =>
    columns.map(({ maxWidth }, index) => clip(row[index] ?? "", maxWidth ?? Infinity)),
  );
  const widths = columns.map(({ title }, index) =>
    clipped.reduce((most, row) => Math.max(most, textWidth(row[index]!)), textWidth(title)),
  );
  const line = (cells: readonly string[]) => {
    const set = cells.map((cell, index) => {
      const gap = " ".repeat(Math.max(0, widths[index]! - textWidth(cell)));
      return columns[index]!.align === "right" ? gap + cell : cell + gap;
    });
    return clip(set.join("  ").trimEnd(), maxColumns);
  };
  return [line(columns.map(({ title }) => title)), ...clipped.map(line)];
}

/** A column of numbers. */
export const right = (title: string): Column => ({ title, align: "right" });

/** Breaks a text at spaces into lines of at most `width` characters. A longer word stays whole. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return line === "" ? lines : [...lines, line];
}
