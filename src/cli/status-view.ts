import { stateOrder } from "../run/state-words.ts";
import type { RunStatus, StatusReport, TaskStatus, WorkerStatus } from "../run/status.ts";
import { duration } from "./progress-view.ts";
import { counted, grouped, spentOf } from "./quantities.ts";
import { clip, table } from "./table.ts";

/** A status as lines for people, none longer than `columns`. */
export function statusLines(
  { run, tasks, workers }: StatusReport,
  wanted: { tasks?: boolean; workers?: boolean },
  columns: number,
): string[] {
  const lines = runLines(run).map((line) => clip(line, columns));
  const hint = nextStep(run);
  // Commands are meant to be copied: they are never cut.
  if (hint) lines.push(hint);
  if (wanted.tasks) lines.push("", ...taskLines(tasks, columns));
  if (wanted.workers) lines.push("", ...workerLines(workers, columns));
  return lines;
}

function runLines(run: RunStatus): string[] {
  const { tasks, rows, errors, usage } = run;
  const { retries, openRetry } = run;
  const done = retries > 0 ? `, ${counted(retries, "retry", "retries")}` : "";
  const begun = openRetry ? `, a retry of ${counted(openRetry.rows, "row")} is begun` : "";
  const name = run.name === null ? "" : `${run.name}  `;
  const reason = run.reason === null ? "" : ` (${run.reason})`;
  const counts = stateOrder.map((word) => `${grouped(tasks[word])} ${word}`);
  const { answered, filtered, failed, journaled } = rows;
  const open = rows.total - answered - filtered - failed - journaled;
  const more = journaled > 0 ? [`${grouped(journaled)} more in open tasks`] : [];
  if (filtered > 0) more.push(`${grouped(filtered)} filtered`);
  const outcomes = [`${grouped(answered)} answered`, ...more, `${grouped(failed)} failed`];
  const lines = [
    `${name}${run.runId}${done}${begun}  ${run.state}${reason}`,
    `  age    ${duration(run.ageSeconds)}${run.sealedAt ? `, sealed ${run.sealedAt}` : ""}`,
    `  tasks  ${counts.join(", ")}, ${grouped(tasks.total)} in all`,
    `  rows   ${outcomes.join(", ")}, ${grouped(open)} open, ${grouped(rows.total)} in all`,
    `  tokens ${grouped(usage.promptTokens)} in, ${grouped(usage.completionTokens)} out`,
  ];
  if (run.budget) lines.push(`  budget ${spentOf(run.budget).join(", ")} spent`);
  for (const [code, entry] of Object.entries(errors)) {
    lines.push(`  ${code}  ${counted(entry.count, "row")}: ${entry.message}`);
  }
  return lines;
}

/** What a person would do next, if anything. */
function nextStep(run: RunStatus): string | undefined {
  const { state, openTasks, rows, location, tasks, openRetry } = run;
  if (state === "running") return undefined;
  if (openRetry) {
    return `  to go on: sluice resume ${location}; to drop it: sluice retry ${location} --abandon`;
  }
  if (openTasks === "") {
    if (state === "successful" || state === "failed") {
      return rows.failed > 0 ? `  sluice retry ${location}  asks the failed rows again` : undefined;
    }
    return `  every task is done: sluice seal ${location}`;
  }
  const verb = tasks.successful === 0 && state === "pending" ? "to begin" : "to go on";
  const command = `sluice worker ${location} --tasks ${openTasks}`;
  return `  ${verb}: the same sluice run command, or ${command}`;
}

function taskLines(tasks: readonly TaskStatus[], columns: number): string[] {
  const set = [
    { title: "task", align: "right" as const },
    { title: "id" },
    { title: "status" },
    { title: "code" },
    { title: "rows", align: "right" as const },
    { title: "failed", align: "right" as const },
    { title: "worker" },
  ];
  const rows = tasks.map(({ task, id, state, code, rows, failed, worker }) => [
    String(task),
    id ?? "",
    state,
    code ?? "",
    rows === null ? "" : String(rows),
    failed === null ? "" : String(failed),
    worker ?? "",
  ]);
  return table(set, rows, columns);
}

function workerLines(workers: readonly WorkerStatus[], columns: number): string[] {
  const set = [
    { title: "worker" },
    { title: "status" },
    { title: "host" },
    { title: "pid", align: "right" as const },
    { title: "engine" },
    { title: "device" },
  ];
  const rows = workers.map(({ id, state, host, pid, engine, device }) => [
    id,
    state,
    host,
    String(pid),
    engine,
    device,
  ]);
  return table(set, rows, columns);
}
