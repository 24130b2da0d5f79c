import { SluiceError } from "../../foundation/errors.ts";
import { eachIndex, parseIndexSet } from "../../foundation/index-set.ts";
import { isJsonObject, type Json } from "../../foundation/json.ts";
import type { ShareState } from "../joining/scheduler.ts";

/** Tasks of an array job in one state: one, or all that did not start yet. */
export interface SlurmTask {
  /** Id of the array job. */
  submission: string;
  shares: number[];
  comment: string;
  state: Pick<ShareState, "state" | "reason" | "node" | "exitCode">;
  /** File of the log, where Slurm says it. */
  logs?: string;
}

/** States of Slurm that end a task in their own way; the rest of its list is in `stateOf`. */
const waiting = /^(PENDING|REQUEUED|REQUEUE_FED|REQUEUE_HOLD|SPECIAL_EXIT|RESV_DEL_HOLD)/;
const running = /^(RUNNING|CONFIGURING|COMPLETING|RESIZING|SIGNALING|STAGE_OUT|STOPPED|SUSPENDED)/;

/**
 * The answer of `squeue --json`. Releases before 23.02 have plain numbers and one text as the
 * state; later ones have `{set, infinite, number}` and a list of states.
 *
 * @throws SluiceError `SCHEDULER_REFUSED` if squeue says that no controller answers.
 */
export function parseQueue(text: string): SlurmTask[] {
  const { jobs, errors } = JSON.parse(text) as Record<"jobs" | "errors", Record<string, Json>[]>;
  // Without its controller, squeue says so here, lists no job, and ends with 0.
  if (errors?.length > 0) {
    throw new SluiceError("SCHEDULER_REFUSED", `squeue: ${textOf(errors[0]!.description)}`);
  }
  return jobs.flatMap((job) => {
    const array = numberOf(job.array_job_id);
    if (!array) return [];
    const shares = sharesOf(numberOf(job.array_task_id), textOf(job.array_task_string));
    const exit = exitCodeOf(job.exit_code);
    return [
      {
        submission: String(array),
        shares,
        comment: textOf(job.comment).trim(),
        state: stateOf(textOf(job.job_state), textOf(job.state_reason), textOf(job.nodes), exit),
        ...(textOf(job.standard_output) && { logs: textOf(job.standard_output) }),
      },
    ];
  });
}

/** The answer of `scontrol --oneliner show job`, for releases without JSON. */
export function parseJobLines(text: string): SlurmTask[] {
  return text.split("\n").flatMap((line) => {
    const field = (name: string) =>
      new RegExp(`(?:^|\\s)${name}=(.*?)(?=\\s+[A-Z]\\S*=|\\s*$)`).exec(line)?.[1] ?? "";
    const array = field("ArrayJobId");
    if (array === "") return [];
    const index = field("ArrayTaskId");
    const [code = 0, signal = 0] = field("ExitCode").split(":").map(Number);
    const state = stateOf(
      field("JobState"),
      field("Reason"),
      field("NodeList"),
      signal === 0 ? code : undefined,
    );
    const shares = sharesOf(/^\d+$/.test(index) ? Number(index) : undefined, index);
    return [
      { submission: array, shares, comment: field("Comment").trim(), state, logs: field("StdOut") },
    ];
  });
}

/** One task, or the set of those that wait, such as `0-9,12%4`. */
function sharesOf(index: number | undefined, set: string): number[] {
  if (index !== undefined) return [index];
  // A long set is cut short: what can be read says enough, for all of them wait.
  const text = set.replace(/%.*$/, "").replace(/,?\.\.\..*$/, "");
  return /^\d+([-,]\d+)*$/.test(text) ? [...eachIndex(parseIndexSet(text))] : [];
}

function stateOf(
  word: string,
  reason: string,
  nodes: string,
  exitCode: number | undefined,
): SlurmTask["state"] {
  const why = /^(None|\(null\)|)$/.test(reason) ? {} : { reason };
  const place = /^(\(null\)|)$/.test(nodes) ? {} : { node: nodes };
  if (waiting.test(word)) return { state: "pending", ...why };
  if (running.test(word)) return { state: "running", ...place };
  if (word.startsWith("COMPLETED")) return { state: "successful", ...place, exitCode: 0 };
  if (word.startsWith("CANCELLED")) return { state: "canceled", ...place };
  const code = word.startsWith("FAILED") && exitCode ? { exitCode } : {};
  const cause = word.startsWith("FAILED") ? why : { reason: word.toLowerCase() };
  return { state: "failed", ...place, ...code, ...cause };
}

/** A number of either generation; undefined where it is not set. */
function numberOf(value: Json | undefined): number | undefined {
  if (typeof value === "number") return value;
  if (!isJsonObject(value ?? null)) return undefined;
  const { set, number } = value as Record<string, Json>;
  return set === true && typeof number === "number" ? number : undefined;
}

/** A text, or the first of a list of them. */
function textOf(value: Json | undefined): string {
  const first = Array.isArray(value) ? value[0] : value;
  return typeof first === "string" ? first : "";
}

/** Older releases have the status of `wait`; undefined if a signal ended the task. */
function exitCodeOf(value: Json | undefined): number | undefined {
  if (typeof value === "number") return (value & 0x7f) === 0 ? value >> 8 : undefined;
  if (!isJsonObject(value ?? null)) return undefined;
  const { return_code, signal } = value as Record<string, Json>;
  const id = isJsonObject(signal ?? null) ? (signal as Record<string, Json>).id : signal;
  return numberOf(id) ? undefined : numberOf(return_code);
}
