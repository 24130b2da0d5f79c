import type { RunEvent, RunProgress } from "../run/status/events.ts";
import {
  type ProgressState,
  type ProgressTotals,
  progressOf,
  totalsOf,
} from "../run/status/progress-state.ts";
import type { Paint } from "./colors.ts";
import { batchesOf, counted, grouped, spentOf } from "./quantities.ts";
import { clip } from "./table.ts";

/**
 * The block that is redrawn in place: totals with a bar, facts, failures, and a line for each
 * worker if there are several. No line is longer than `columns`, so the terminal never wraps one.
 */
export function renderProgress(
  state: ProgressState,
  columns: number,
  now: number,
  paint: Paint = (_, text) => text,
): string[] {
  const step = state.step ?? (state.run ? undefined : planningOf(state));
  const stepLines = step ? [clip(stepText(step, columns), columns)] : [];
  if (!state.run) return stepLines;
  const totals = totalsOf(state);
  const share = state.run.rows === 0 ? 1 : Math.min(1, totals.done / state.run.rows);
  const counts = `${percent(share).padStart(4)}  ${grouped(totals.done)}/${grouped(state.run.rows)} rows`;
  const drawn = bar(share, barWidth(columns - counts.length - 2));
  const first = clip(`${drawn} ${counts}`, columns);
  const facts = packed(blockFacts(state, totals, now), columns);
  const failed = failedText(totals, columns);
  return [
    first.replace(drawn, () => paint("green", drawn)),
    ...(step || isStarting(state, totals) ? stepLines : facts),
    ...(!step && isStarting(state, totals) ? [clip(startingText(state, now), columns)] : []),
    ...(failed === undefined ? [] : [paint("red", failed)]),
    ...workerLines(state).map((line) => clip(line, columns)),
  ];
}

const barWidth = (room: number) => Math.max(10, Math.min(30, room));

function stepText({ text, share }: NonNullable<ProgressState["step"]>, columns: number): string {
  if (share === undefined) return text;
  const done = percent(share).padStart(4);
  return `${bar(share, barWidth(columns - text.length - done.length - 4))} ${done}  ${text}`;
}

/** True until the first worker has its engine. */
const isStarting = (state: ProgressState, { fresh }: ProgressTotals) =>
  state.startedWorkers === 0 && fresh === 0 && state.ended.tasks === 0 && !state.sealed;

const startingText = ({ startedAt }: ProgressState, now: number) =>
  `starting a worker and loading the model  ${duration((now - startedAt) / 1000)}`;

/** Joins facts into as many lines as they need. */
function packed(facts: readonly string[], columns: number): string[] {
  const lines: string[] = [];
  for (const fact of facts) {
    const longer = lines.length === 0 ? fact : `${lines.at(-1)}  ${fact}`;
    if (lines.length > 0 && longer.length <= columns) lines[lines.length - 1] = longer;
    else lines.push(clip(fact, columns));
  }
  return lines;
}

function blockFacts(state: ProgressState, totals: ProgressTotals, now: number): string[] {
  const progress = progressOf(state, now);
  return [
    `${duration((now - state.startedAt) / 1000)} elapsed`,
    ...etaFact(progress),
    ...(totals.fresh === 0 ? [] : [`${rate(progress.rowsPerSecond)} rows/s`]),
    `${grouped(state.resumedTasks + state.ended.tasks)}/${counted(state.run!.tasks, "task")}`,
    `${grouped(totals.inFlight)} in flight`,
    ...batchesOf(progress.batches ?? []),
    ...(totals.fresh === 0
      ? []
      : [
          `${rate(progress.promptTokensPerSecond)} tokens/s in`,
          `${rate(progress.completionTokensPerSecond)} out`,
        ]),
    ...cutFact(totals),
    ...(state.budget ? spentOf(state.budget) : []),
  ];
}

/** Answers that reached the token limit: the user may want to stop and raise it. */
function cutFact({ cut }: ProgressTotals): string[] {
  return cut === 0 ? [] : [`${grouped(cut)} cut at the limit of tokens`];
}

function failedText({ failed, errors }: ProgressTotals, columns: number): string | undefined {
  if (failed === 0) return undefined;
  const codes = Object.entries(errors).map(([code, { count }]) => `${grouped(count)} ${code}`);
  const named = codes.length === 0 ? "" : `: ${codes.join(", ")}`;
  return clip(`${grouped(failed)} failed${named}`, columns);
}

/** The progress in one line, for output that is not a terminal. */
export function renderProgressLine(state: ProgressState, now: number): string {
  if (!state.run) return planningOf(state)?.text ?? "";
  const totals = totalsOf(state);
  const tasks = state.resumedTasks + state.ended.tasks;
  const done = `${grouped(totals.done)}/${grouped(state.run.rows)} rows`;
  const facts = lineFacts(state, totals, progressOf(state, now));
  const elapsed = duration((now - state.startedAt) / 1000);
  return `${done}, ${tasks}/${state.run.tasks} tasks, ${elapsed}, ${facts.join(", ")}`;
}

/** What an event says to the user, as a line; undefined if it only changes the block. */
export function eventMessage(event: RunEvent, { workers }: ProgressState): string | undefined {
  switch (event.type) {
    case "notice":
      return event.message;
    case "run-start": {
      const { runId, rows, tasks, output, resumedRows, resumedTasks } = event;
      const begun = `run ${runId}: ${counted(rows, "row")} in ${counted(tasks, "task")} → ${output}`;
      const isResumed = resumedRows > 0 || resumedTasks > 0;
      const skipped = `; done already: ${counted(resumedTasks, "task")}, ${counted(resumedRows, "row")}`;
      return isResumed ? begun + skipped : begun;
    }
    case "worker-end":
      return (
        event.error &&
        `worker ${workers.get(event.worker)?.number ?? event.worker} ended: ${event.error.message}`
      );
    case "task-end":
      return event.error && `task ${event.task} ${event.outcome}: ${event.error.message}`;
    case "row-error":
      return `row failed: ${event.code}: ${event.message}${event.hint ? `; ${event.hint}` : ""}`;
    default:
      return undefined;
  }
}

function planningOf({ planned }: ProgressState): ProgressState["step"] {
  if (!planned) return undefined;
  const { rows, bytes, totalBytes } = planned;
  const share = totalBytes === 0 ? 1 : Math.min(1, bytes / totalBytes);
  return { text: `reading the input, ${counted(rows, "row")}`, share };
}

function lineFacts(state: ProgressState, totals: ProgressTotals, progress: RunProgress): string[] {
  return [
    `${rate(progress.rowsPerSecond)} rows/s`,
    `${rate(progress.promptTokensPerSecond)} tokens/s in`,
    `${rate(progress.completionTokensPerSecond)} tokens/s out`,
    `${totals.inFlight} in flight`,
    ...batchesOf(progress.batches ?? []),
    `${grouped(totals.failed)} failed`,
    ...cutFact(totals),
    ...(state.budget ? spentOf(state.budget) : []),
    ...etaFact(progress),
    ...Object.entries(totals.errors).map(([code, { count }]) => `${code} ${grouped(count)}`),
  ];
}

const etaFact = ({ etaSeconds }: RunProgress): string[] =>
  etaSeconds === null ? [] : [`ETA ${duration(etaSeconds)}`];

/** Lines for more workers would push the log off the screen. */
const maxWorkerLines = 8;

function workerLines(state: ProgressState): string[] {
  if (state.workers.size < 2) return [];
  const lines = [...state.workers].map(([name, worker]) => {
    const open = [...state.open].filter(([, task]) => task.worker === name);
    const inFlight = open.reduce((sum, [, task]) => sum + task.inFlight, 0);
    const fresh = open.reduce((sum, [, task]) => sum + task.done - task.resumed, worker.finished);
    const tasks = open.map(([task]) => task).join(",");
    const doing = open.length === 0 ? "idle" : `task ${tasks}, ${inFlight} in flight`;
    return `  worker ${worker.number}  ${counted(Math.max(0, fresh), "row")}  ${doing}`;
  });
  if (lines.length <= maxWorkerLines) return lines;
  const hidden = lines.length - maxWorkerLines + 1;
  return [...lines.slice(0, maxWorkerLines - 1), `  and ${hidden} more workers`];
}

function bar(share: number, width: number): string {
  const filled = Math.floor(share * width);
  return `[${"█".repeat(filled)}${"░".repeat(width - filled)}]`;
}

/** A share in percent. 100% means all: a share just below it is 99%. */
export function percent(share: number): string {
  return `${Math.floor(share * 100)}%`;
}

/** A number per second, such as `0.3` or `1,200`. */
export function rate(perSecond: number): string {
  return perSecond >= 10 ? grouped(Math.round(perSecond)) : perSecond.toFixed(1);
}

/** `42s`, `3m05s`, `2h07m`, `4d03h`. */
export function duration(seconds: number): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const whole = Math.ceil(seconds);
  const minutes = Math.floor(whole / 60);
  const hours = Math.floor(minutes / 60);
  if (whole < 60) return `${whole}s`;
  if (minutes < 60) return `${minutes}m${two(whole % 60)}s`;
  if (hours < 48) return `${hours}h${two(minutes % 60)}m`;
  return `${Math.floor(hours / 24)}d${two(hours % 24)}h`;
}
