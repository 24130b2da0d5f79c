import type { SluiceError } from "../../src/foundation/errors.ts";
import type { RunResult } from "../../src/run/status/run-result.ts";

/** How one call of a command ended. */
export type CallEnd =
  | { result: RunResult }
  /** Without a result: there was nothing to do, or what it does has none. */
  | { idle: true }
  | { error: SluiceError }
  | { gone: "killed" | "paused" };

/** The same in a few words. */
export function describeEnd(end: CallEnd): string {
  if ("gone" in end) return end.gone;
  if ("idle" in end) return "done";
  if ("error" in end) return `${end.error.code} ${end.error.message}`;
  const { error, summary } = end.result;
  return error ? `${error.code} ${error.message}` : summary.status;
}
