/**
 * A path as messages, dead letters and events show it: the query of a web address may hold a
 * signature, which is for the plan and the server alone.
 *
 * @example
 * shownPath("https://example.org/rows.jsonl?token=secret"); // "https://example.org/rows.jsonl"
 */
export function shownPath(path: string): string {
  return /^https?:/i.test(path) ? path.replace(/[?#].*$/s, "") : path;
}
