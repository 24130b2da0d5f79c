import { type BenchResult, isMet } from "./result.ts";

const headings = ["what", "measured", "baseline", "ratio", "goal", "met"];

/** The results as a table in Markdown, columns aligned so that it reads well as plain text too. */
export function resultsTable(results: readonly BenchResult[]): string {
  return tableOf(results.map(cellsOf));
}

/**
 * A text with a table of results, the table with those of `results` in place of older ones of the
 * same name and others behind it, followed by how these came about. All else stays.
 */
export function withResults(
  text: string,
  results: readonly BenchResult[],
  circumstances: string,
): string {
  const lines = text.trim().split("\n");
  const end = lines.findIndex((line) => !line.startsWith("|"));
  const table = end < 0 ? lines : lines.slice(0, end);
  const rows = new Map(table.slice(2).map((line) => [cellsIn(line)[0]!, cellsIn(line)]));
  for (const result of results) rows.set(result.name, cellsOf(result));
  const rest = end < 0 ? "" : lines.slice(end).join("\n").trim();
  return [tableOf([...rows.values()]), circumstances, rest].filter(Boolean).join("\n\n");
}

function tableOf(results: readonly string[][]): string {
  const rows = [headings, ...results];
  const widths = headings.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`;
  const rule = widths.map((width) => "-".repeat(width));
  return [line(headings), line(rule), ...rows.slice(1).map(line)].join("\n");
}

function cellsIn(line: string): string[] {
  const cells = line.split("|").slice(1, -1);
  return cells.map((cell) => cell.trim());
}

function cellsOf(result: BenchResult): string[] {
  const { name, value, unit, baseline, ratio, goal, atMost } = result;
  const met = isMet(result);
  return [
    name,
    `${numberText(value)} ${unit}`,
    `${numberText(baseline)} ${unit}`,
    ratio.toFixed(2),
    goal !== undefined ? `ratio ≥ ${goal}` : atMost !== undefined ? `≤ ${atMost} ${unit}` : "",
    met === undefined ? "" : met ? "yes" : "no",
  ];
}

function numberText(value: number): string {
  if (value >= 1000) return Math.round(value).toLocaleString("en-US");
  return value >= 100 ? value.toFixed(0) : value.toFixed(2);
}
