import type { z } from "zod";
import type { ErrorCode } from "../../foundation/error-table.ts";
import { SluiceError, wordedError } from "../../foundation/errors.ts";
import { nearest } from "../../foundation/suggest.ts";

/** The origin of a value of the job. */
export type Origin =
  | { from: "file"; file: string; lineOf(path: readonly string[]): number | undefined }
  /** `name` is the variable. */
  | { from: "environment"; name: string }
  /** `name` is the flag as typed, such as `--set limit`. */
  | { from: "flag"; name: string }
  | { from: "default" };

export interface Problem {
  code: ErrorCode;
  path: readonly string[];
  message: string;
  origin: Origin;
  hint?: string;
}

/** One error for all faults, each on its own line if there are several. */
export function problemsError(problems: readonly Problem[]): SluiceError {
  const [first] = problems;
  if (first === undefined) throw new TypeError("there is no problem to report");
  const hint = problems.find((problem) => problem.hint !== undefined)?.hint;
  if (problems.length === 1) {
    const { origin, path } = first;
    const file = origin.from === "file" ? origin.file : undefined;
    const line = origin.from === "file" ? origin.lineOf(path) : undefined;
    const field = path.length === 0 ? undefined : path.join(".");
    return new SluiceError(first.code, withName(first), { file, line, field, hint });
  }
  const isOneCode = problems.every((problem) => problem.code === first.code);
  const sorted = problems.toSorted((one, other) => lineOf(one) - lineOf(other));
  const lines = sorted.map((problem) => `\n  ${place(problem)}: ${problem.message}`);
  return new SluiceError(
    isOneCode ? first.code : "JOB_INVALID",
    `${problems.length} problems${lines.join("")}`,
    { hint },
  );
}

/**
 * The faults that a schema found.
 *
 * @param path of the checked value.
 * @param knownAt names that an unknown key at a path may have meant.
 */
export function schemaProblems(
  issues: readonly z.core.$ZodIssue[],
  path: readonly string[],
  origin: Origin,
  knownAt: (path: readonly string[]) => readonly string[],
): Problem[] {
  return issues.flatMap((issue): Problem[] => {
    const whole = [...path, ...issue.path.map(String)];
    const fault = { code: "JOB_INVALID" as const, origin };
    if (issue.code !== "unrecognized_keys")
      return [{ ...fault, path: whole, message: issue.message }];
    const known = knownAt(whole);
    return issue.keys.map((name) => {
      const meant = nearest(name, known);
      const names = known.length > 0 ? `; known: ${known.join(", ")}` : "";
      const more = meant === undefined ? names : `; did you mean ${meant}?`;
      return { ...fault, path: [...whole, name], message: `is not a key here${more}` };
    });
  });
}

/**
 * An error with a key of the job, completed with the key's file and line; any other error stays
 * unchanged.
 *
 * @param originOf returns the origin of a dotted key's value.
 */
export function withJobLine(thrown: unknown, originOf: (key: string) => Origin): unknown {
  if (!(thrown instanceof SluiceError)) return thrown;
  const ofJobs = ["JOB_INVALID", "TEMPLATE_INVALID", "ENV_MISSING"];
  return ofJobs.includes(thrown.code) ? withLine(thrown, originOf) : thrown;
}

/** The same, for an error whose field is a key of the file in any case. */
export function withLine(thrown: SluiceError, originOf: (key: string) => Origin): SluiceError {
  const { code, message, hint, place, cause } = thrown;
  const { file: known, field } = place;
  if (field === undefined || known !== undefined) return thrown;
  const origin = originOf(field);
  if (origin.from !== "file") return thrown;
  const { file } = origin;
  const line = origin.lineOf(field.split("."));
  const where = line === undefined ? file : `${file}:${line}`;
  const placed = message.replace(` (field ${field})`, ` (${where}, field ${field})`);
  return wordedError(code, placed, { file, line, field, hint, cause });
}

/** Faults without a line come after those with one. */
function lineOf({ path, origin }: Problem): number {
  const line = origin.from === "file" ? origin.lineOf(path) : undefined;
  return line ?? Number.MAX_SAFE_INTEGER;
}

function withName({ path, message, origin }: Problem): string {
  const key = path.join(".");
  if (origin.from === "environment" || origin.from === "flag") return `${origin.name}: ${message}`;
  return key === "" ? message : `${key}: ${message}`;
}

function place({ path, origin }: Problem): string {
  const key = path.join(".");
  switch (origin.from) {
    case "file": {
      const line = origin.lineOf(path);
      return `${origin.file}${line === undefined ? "" : `:${line}`} ${key}`.trimEnd();
    }
    case "environment":
    case "flag":
      // A flag such as --dataset holds several keys.
      return origin.name.endsWith(path.at(-1) ?? "") ? origin.name : `${origin.name} (${key})`;
    case "default":
      return key;
  }
}
