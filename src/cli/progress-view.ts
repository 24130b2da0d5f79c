import type { RunEvent } from "../run/events.ts";
import { type ProgressState, type ProgressTotals, totalsOf } from "./progress-state.ts";
import { counted, grouped, spentOf } from "./quantities.ts";
import { clip } from "./table.ts";

interface Rates {
  rows: number;
  tokensIn: number;
  tokensOut: number;
}

/**
 * The block that is redrawn in place: a line of totals with a bar, one of rates, one a worker. No
 * line is longer than `columns`, so that the terminal never wraps one.
 */
export function renderProgress(state: ProgressState, columns: number, now: number): string[] {
  if (!state.run) return renderPlanning(state, columns);
  const totals = totalsOf(state);
  const rates = ratesOf(state, totals, now);
  const share = state.run.rows === 0 ? 1 : Math.min(1, totals.done / state.run.rows);
  const counts = `${percent(share).padStart(4)}  ${grouped(totals.done)}/${grouped(state.run.rows)} rows`;
  const width = Math.max(10, Math.min(30, columns - counts.length - 2));
  const lines = [`${bar(share, width)} ${counts}`, factsLine(state, totals, rates)];
  lines.push(...workerLines(state));
  return lines.map((line) => clip(line, columns));
}

/** The same in one line, for what is not a terminal. */
export function renderProgressLine(state: ProgressState, now: number): string {
  if (!state.run) return renderPlanning(state, Number.POSITIVE_INFINITY).join("");
  const totals = totalsOf(state);
  const rates = ratesOf(state, totals, now);
  const tasks = state.resumedTasks + state.ended.tasks;
  const done = `${grouped(totals.done)}/${grouped(state.run.rows)} rows`;
  const facts = factsLine(state, totals, rates);
  return `${done}, ${tasks}/${state.run.tasks} tasks, ${facts.replaceAll("  ", ", ")}`;
}

/** What an event says to a person, as a line; undefined for what only moves the block. */
export function eventMessage(event: RunEvent): string | undefined {
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
      return event.error && `worker ${event.worker} ended: ${event.error.message}`;
    case "task-end":
      return event.error && `task ${event.task} ${event.outcome}: ${event.error.message}`;
    case "row-error":
      return `row failed: ${event.code}: ${event.message}`;
    default:
      return undefined;
  }
}

function renderPlanning({ planned }: ProgressState, columns: number): string[] {
  if (!planned) return [];
  const { rows, bytes, totalBytes } = planned;
  const share = totalBytes === 0 ? 1 : Math.min(1, bytes / totalBytes);
  return [clip(`planning  ${percent(share).padStart(4)}  ${grouped(rows)} rows`, columns)];
}

function ratesOf(state: ProgressState, totals: ProgressTotals, now: number): Rates {
  const from = state.samples[0];
  if (!from || now <= from.at) return { rows: 0, tokensIn: 0, tokensOut: 0 };
  const seconds = (now - from.at) / 1000;
  const per = (after: number, before: number) => Math.max(0, after - before) / seconds;
  return {
    rows: per(totals.fresh, from.rows),
    tokensIn: per(totals.usage.promptTokens, from.usage.promptTokens),
    tokensOut: per(totals.usage.completionTokens, from.usage.completionTokens),
  };
}

function factsLine(state: ProgressState, totals: ProgressTotals, rates: Rates): string {
  const rest = (state.run?.rows ?? 0) - totals.done;
  const facts = [
    `${rate(rates.rows)} rows/s`,
    `${rate(rates.tokensIn)} tokens/s in`,
    `${rate(rates.tokensOut)} tokens/s out`,
    `${totals.inFlight} in flight`,
    `${grouped(totals.failed)} failed`,
  ];
  if (state.budget) facts.push(...spentOf(state.budget));
  if (rest > 0 && rates.rows > 0) facts.push(`ETA ${duration(rest / rates.rows)}`);
  for (const [code, { count }] of Object.entries(totals.errors))
    facts.push(`${code} ${grouped(count)}`);
  return facts.join("  ");
}

/** Lines of more workers than this would push the log off the screen. */
const maxWorkerLines = 8;

function workerLines(state: ProgressState): string[] {
  const lines = [...state.workers].map(([name, worker]) => {
    const open = [...state.open].filter(([, task]) => task.worker === name);
    const inFlight = open.reduce((sum, [, task]) => sum + task.inFlight, 0);
    const fresh = open.reduce((sum, [, task]) => sum + task.done - task.resumed, worker.finished);
    const tasks = open.map(([task]) => task).join(",");
    const doing = open.length === 0 ? "idle" : `task ${tasks}  ${inFlight} in flight`;
    return `  ${name}  ${grouped(Math.max(0, fresh))} rows  ${doing}`;
  });
  if (lines.length <= maxWorkerLines) return lines;
  const hidden = lines.length - maxWorkerLines + 1;
  return [...lines.slice(0, maxWorkerLines - 1), `  and ${hidden} more workers`];
}

function bar(share: number, width: number): string {
  const filled = Math.floor(share * width);
  return `[${"█".repeat(filled)}${"░".repeat(width - filled)}]`;
}

/** 100% means all: a share just below it is shown as 99%. */
export function percent(share: number): string {
  return `${Math.floor(share * 100)}%`;
}

/** Something a second: `0.3`, `1,200`. */
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
