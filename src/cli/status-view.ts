import type { Usage } from "../foundation/inference.ts";
import { quotedWord } from "../foundation/shown-path.ts";
import { cutText } from "../run/status/cut-answers.ts";
import { stateOrder } from "../run/status/state-words.ts";
import type { RunStatus, StatusReport, TaskStatus, WorkerStatus } from "../run/status/status.ts";
import { duration, percent, rate } from "../terminal/progress-view.ts";
import { batchesOf, counted, dollars, grouped, sized, spentOf } from "../terminal/quantities.ts";
import { clip, right, table } from "../terminal/table.ts";
import { raisedIfSpent, retrySteps } from "./summary-view.ts";

/**
 * A status as lines for people, none longer than `columns`.
 *
 * @param wanted `flags` are those that commands about the run need.
 */
export function statusLines(
  { run, tasks, workers }: StatusReport,
  wanted: { tasks?: boolean; workers?: boolean; flags?: string | undefined },
  columns: number,
): string[] {
  const lines = runLines(run).map((line) => clip(line, columns));
  // Commands are meant to be copied: they are never cut.
  lines.push(...nextSteps(run, wanted.flags));
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
  const open = rows.total - answered - filtered - failed - journaled - run.openFailed;
  const more = journaled > 0 ? [`${grouped(journaled)} more in open tasks`] : [];
  if (filtered > 0) more.push(`${grouped(filtered)} filtered`);
  const outcomes = [`${grouped(answered)} answered`, ...more, `${grouped(failed)} failed`];
  if (run.openFailed > 0) outcomes.push(`${grouped(run.openFailed)} more failed in open tasks`);
  const share = rows.total === 0 ? 1 : (rows.total - open) / rows.total;
  const lines = [
    `${name}${run.runId}${done}${begun}  ${run.state}${reason}`,
    `  model  ${modelText(run.model)}`,
    `  input  ${inputText(run.input)}`,
    `  age    ${duration(run.ageSeconds)}${run.sealedAt ? `, sealed ${run.sealedAt}` : ""}`,
    `  tasks  ${counts.join(", ")}, ${grouped(tasks.total)} in all`,
    `  rows   ${percent(share)}: ${outcomes.join(", ")}, ${grouped(open)} open, ` +
      `${grouped(rows.total)} in all`,
    `  tokens ${tokensText(usage)}${openTokens(run.openUsage)}`,
    ...rateLines(run),
  ];
  const cut = cutText(answered + journaled, run.cut);
  if (cut !== undefined) lines.push(`  cut    ${cut}`);
  if (run.usd !== null) lines.push(`  cost   ${dollars(run.usd)}`);
  if (run.duplicateIds)
    lines.push(`  ids    ${counted(run.duplicateIds, "row repeats", "rows repeat")} an id`);
  if (run.budget) lines.push(`  budget ${spentOf(run.budget).join(", ")} spent`);
  for (const [code, entry] of Object.entries(errors)) {
    lines.push(`  ${code}  ${counted(entry.count, "row")}: ${entry.message}`);
  }
  return lines;
}

/** The model in a few words. */
export const modelText = ({ engine, name }: RunStatus["model"]) =>
  name === null || name === engine ? engine : `${engine}, ${name}`;

const maxShownPaths = 3;

function inputText({ paths, files, bytes }: RunStatus["input"]): string {
  const hidden = paths.length - maxShownPaths;
  const shown = [...paths.slice(0, maxShownPaths), ...(hidden > 0 ? [`${hidden} more`] : [])];
  return `${shown.join(", ")} (${counted(files, "file")}, ${sized(bytes)})`;
}

const tokensText = ({ promptTokens, completionTokens }: Usage) =>
  `${grouped(promptTokens)} in, ${grouped(completionTokens)} out`;

const openTokens = (usage: Usage) =>
  usage.promptTokens + usage.completionTokens > 0
    ? `; ${tokensText(usage)} more in open tasks`
    : "";

function rateLines({ rowsPerSecond, etaSeconds, live }: RunStatus): string[] {
  if (rowsPerSecond === null) return [];
  const facts = [`${rate(rowsPerSecond)} rows/s`];
  if (etaSeconds !== null) facts.push(`ETA ${duration(etaSeconds)}`);
  if (live) {
    facts.push(
      `${grouped(live.inFlight)} in flight`,
      ...batchesOf(live.batches ?? []),
      `${rate(live.promptTokensPerSecond)} tokens/s in`,
      `${rate(live.completionTokensPerSecond)} out`,
    );
  }
  return [`  rate   ${facts.join(", ")}`];
}

/** The next command for a person, if there is one. */
function nextSteps(run: RunStatus, flags = ""): string[] {
  const { state, openTasks, rows, tasks, openRetry } = run;
  const location = quotedWord(run.location) + flags;
  if (state === "running") return [];
  if (run.needsProgram) {
    return run.sealedAt === null ? ["  to continue: run the program that began it again"] : [];
  }
  const raised = raisedIfSpent({ ...run.budget?.budget }, { ...run.budget?.spent });
  const again = location + raised;
  const resume = `sluice resume ${again}`;
  if (openRetry) {
    return [
      `  to continue: sluice resume ${again}; to drop it: sluice retry ${location} --abandon`,
    ];
  }
  if (openTasks === "") {
    if (run.sealedAt === null) return [`  every task is done: sluice seal ${location}`];
    const steps = rows.failed === 0 ? [] : retrySteps(Object.keys(run.errors), again);
    if (run.cut && run.cutRetry)
      steps.push([run.cutRetry, "processes rows with cut answers again"]);
    return steps.map(([command, what]) => `  ${command}  ${what}`);
  }
  const verb = tasks.successful === 0 && state === "pending" ? "to begin" : "to continue";
  const command = `sluice worker ${location} --tasks ${openTasks}`;
  if (raised !== "") return [`  to continue: ${resume}`];
  return [`  ${verb}: ${resume}, or ${command}`];
}

function taskLines(tasks: readonly TaskStatus[], columns: number): string[] {
  const set = [right("task"), "id", "status", "code", right("rows"), right("failed"), "worker"];
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
  const isPlaced = workers.some(({ scheduler }) => scheduler !== undefined);
  const place = isPlaced ? ["scheduler"] : [];
  const set = ["worker", "status", "host", right("pid"), "engine", "device", ...place];
  const rows = workers.map(({ id, state, host, pid, engine, device, scheduler }) => [
    id,
    state,
    host,
    String(pid),
    engine,
    device,
    ...(isPlaced ? [scheduler ?? ""] : []),
  ]);
  return table(set, rows, columns);
}
