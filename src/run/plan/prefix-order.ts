import type { InputRow } from "../../data/row.ts";
import { contentText } from "../../foundation/inference.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { RowRequest } from "../../prompt/row-request.ts";

/** Rows and prompts in memory while they are sorted by prefix, for each task. */
const maxOrderedBytes = 64 * 1024 * 1024;

/** The order in which the rows of a task are sent. Results are always in input order. */
export type RowOrder = "input" | "prefix";

/** Earlier prompts that an engine's sequences may still hold. */
const heldPrompts = 16;
/** Sorting must save this share of the characters; otherwise rows stay in input order. */
const worthwhileShare = 0.1;

/**
 * Rows sorted by the text of their first request: rows with a common beginning are sent one after
 * the other, and an engine computes it once. Sorted within windows of `maxOrderedBytes`, so that
 * memory stays flat. Rows that cannot be rendered come first.
 */
export async function* inPrefixOrder(
  batches: AsyncIterable<InputRow[]>,
  promptSet: PromptSet,
  maxBytes: number = maxOrderedBytes,
): AsyncGenerator<InputRow[]> {
  let window: OrderedRow[] = [];
  let bytes = 0;
  for await (const rows of batches) {
    for (const row of rows) {
      const text = firstText(promptSet, row);
      window.push({ row, text });
      bytes += 2 * (row.raw.length + text.length);
    }
    if (bytes < maxBytes) continue;
    yield sorted(window);
    window = [];
    bytes = 0;
  }
  if (window.length > 0) yield sorted(window);
}

interface OrderedRow {
  row: InputRow;
  text: string;
}

function sorted(window: OrderedRow[]): InputRow[] {
  // Equal texts stay in input order: the sort is stable.
  window.sort((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0));
  return window.map(({ row }) => row);
}

/** The text of a row's first request, from its start; empty if it has none. */
export function firstText(promptSet: PromptSet, row: InputRow): string {
  if (row.error) return "";
  try {
    return promptText(promptSet.requests(row.value!, row.index, row.dataset, row.raw)[0]);
  } catch {
    return "";
  }
}

function promptText(request: RowRequest | undefined): string {
  if (request?.messages === undefined) return request?.prompt ?? "";
  return request.messages.map(({ role, content }) => `${role}\n${contentText(content)}\n`).join("");
}

/**
 * Whether prefix order pays: by a sample of prompts in input order, it saves at least a tenth of
 * the characters, beyond those that neighbours share anyway.
 */
export function prefixOrderPays(texts: readonly string[]): boolean {
  const total = texts.reduce((sum, text) => sum + text.length, 0);
  const inInputOrder = texts.reduce((sum, text, at) => {
    const held = texts.slice(Math.max(0, at - heldPrompts), at);
    return sum + Math.max(0, ...held.map((before) => sharedLength(before, text)));
  }, 0);
  const ordered = texts.toSorted();
  const asSorted = ordered.reduce(
    (sum, text, at) => sum + (at === 0 ? 0 : sharedLength(ordered[at - 1]!, text)),
    0,
  );
  return total > 0 && asSorted - inInputOrder >= worthwhileShare * total;
}

function sharedLength(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  let at = 0;
  while (at < length && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  return at;
}
