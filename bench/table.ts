import { type BenchResult, isMet } from "./result.ts";

const headings = ["what", "measured", "baseline", "ratio", "goal", "met"];

/** The results as a table in Markdown, columns aligned so that it reads well as plain text too. */
export function resultsTable(results: readonly BenchResult[]): string {
  const rows = [headings, ...results.map(cellsOf)];
  const widths = headings.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`;
  const rule = widths.map((width) => "-".repeat(width));
  return [line(headings), line(rule), ...rows.slice(1).map(line)].join("\n");
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
