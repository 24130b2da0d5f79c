import { inspect } from "node:util";
import { SluiceError } from "../../foundation/errors.ts";
import { clipped } from "../../foundation/suggest.ts";
import { counted } from "../replicas.ts";

/** Characters of refused results that a message shows. */
const shownChars = 200;

/**
 * The error of a whole batch with a wrong number of results: the row of each result is unknown, and
 * smaller batches would give different results.
 *
 * @param results the code's results.
 */
export function miscounted(results: unknown, rows: number, label = ""): SluiceError {
  const found = Array.isArray(results) ? `${counted(results.length, "result")}` : "no list";
  const text = inspect(results, { depth: 3, breakLength: Infinity, maxArrayLength: 10 });
  const shown = clipped(text, shownChars);
  const detail = `${found} for a batch of ${counted(rows, "row")}: ${shown}`;
  return new SluiceError("RESULTS_MISCOUNTED", label === "" ? detail : `${label}: ${detail}`);
}
