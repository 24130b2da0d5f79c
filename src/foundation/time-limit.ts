import { createContext, Script } from "node:vm";
import { SluiceError } from "./errors.ts";
import { limits } from "./limits.ts";

const context: { compute?: () => unknown } = createContext({});
const script = new Script("compute()");

/**
 * The result of `compute`, if it comes in time. Code that runs for ever is ended, even within one
 * call of a regular expression; its `catch` and `finally` do not run. A call costs 0.1 ms.
 *
 * @returns undefined if it took longer than the limit.
 */
export function withinTime<Value>(
  timeoutMs: number,
  compute: () => Value,
): { value: Value } | undefined {
  context.compute = compute;
  try {
    return { value: script.runInContext(context, { timeout: timeoutMs }) as Value };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return undefined;
    throw error;
  }
}

/**
 * The result of `compute`, which matches texts against patterns of the job. Some patterns would
 * need longer than the age of the universe for a text of 40 characters.
 *
 * @param patterns the patterns for messages, each with its owner: `slot time: \d+`.
 * @throws SluiceError `PATTERN_TOO_SLOW` after `limits.maxPatternMs`.
 */
export function withinPatternTime<Value>(patterns: readonly string[], compute: () => Value): Value {
  if (patterns.length === 0) return compute();
  const done = withinTime(limits.maxPatternMs, compute);
  if (done) return done.value;
  const shown = patterns.length > 3 ? [...patterns.slice(0, 3), "…"] : patterns;
  const detail = `${shown.join("; ")}: over ${limits.maxPatternMs / 1000} s`;
  throw new SluiceError("PATTERN_TOO_SLOW", detail);
}
