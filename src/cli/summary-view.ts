import { type ErrorCode, errorTable, exitCodes } from "../foundation/error-table.ts";
import { leadingCoordinator } from "../run/coordinate/coordinator.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import { locateRun } from "../run/directory/locate.ts";
import { runStorage, runWords } from "../run/directory/run-storage.ts";
import { readPlan } from "../run/plan/plan.ts";
import { readManifest } from "../run/seal/seals.ts";
import { cutRetryOf, cutText } from "../run/status/cut-answers.ts";
import type { RunSummary } from "../run/status/events.ts";
import type { RunResult } from "../run/status/run-result.ts";
import { duplicatesNotice } from "../run/status/summary.ts";
import { type Paint, paintFor } from "../terminal/colors.ts";
import { duration, rate } from "../terminal/progress-view.ts";
import { counted, dollars, grouped } from "../terminal/quantities.ts";
import { clip, wrap } from "../terminal/table.ts";
import type { CliIo } from "./io.ts";
import { argumentOf, runArguments } from "./run-target.ts";

/** What a person sees beside the summary. */
interface SummaryFacts {
  name: string | null;
  wasSealed: boolean;
  /** Rows with a repeated id. */
  duplicates: string | undefined;
  /** The last limits of the run's budget. */
  budget: Readonly<Record<string, number>>;
  /** The command that sends cut rows again, if one helps. */
  cutRetry: string | undefined;
  /** The error already names a command for this run. */
  isAdvised: boolean;
  /** The output, in short. */
  place: string;
  /** The same as arguments of a command to type here. */
  run: string;
  paint: Paint;
}

export async function summaryFacts(
  { summary, wasSealed, error }: RunResult,
  dependencies: RunDependencies,
  io: CliIo,
): Promise<SummaryFacts> {
  const { output, sealed } = summary;
  const { hint = "" } = error ?? {};
  const run = runArguments(output, dependencies, io);
  const storage = runStorage(dependencies.openStorage(locateRun(output).directory));
  const manifest = sealed ? await readManifest(storage) : undefined;
  const isOver = sealed && summary.rows.failed === 0;
  const { budget } = (isOver ? undefined : (await leadingCoordinator(storage))?.job) ?? {};
  return {
    name: manifest?.name ?? null,
    wasSealed,
    duplicates: manifest && duplicatesNotice(manifest),
    budget: { ...budget },
    cutRetry: manifest?.cut
      ? cutRetryOf((await readPlan(storage, manifest.generation)).job, run)
      : undefined,
    isAdvised: /\bsluice /.test(hint) && hint.includes(runWords(storage)),
    place: argumentOf(output, io),
    run,
    paint: paintFor(io.isOutputTerminal, io),
  };
}

/** Reasons of failed rows to show. */
const maxReasons = 5;

/** How a run ended, for people: only lines with commands are longer than `columns`. */
export function summaryLines(summary: RunSummary, facts: SummaryFacts, columns: number): string[] {
  const { name, duplicates, place, paint } = facts;
  const cut = cutText(summary.rows.answered, summary.finish_reasons?.length);
  const { rows, prompt_tokens, total_tokens_generated, run_time_sec, tokens_per_sec } = summary;
  const { stopped_by } = summary;
  const title = [name, summary.run_id].filter((part) => part !== null).join("  ");
  const more =
    rows.resumed > 0 && !facts.wasSealed ? `, ${grouped(rows.resumed)} of them before` : "";
  const kinds = [
    `${grouped(rows.answered)} answered${more}`,
    ...(rows.filtered ? [`${grouped(rows.filtered)} filtered`] : []),
    ...(rows.failed > 0 ? [`${grouped(rows.failed)} failed`] : []),
  ];
  const open = rows.total - rows.answered - rows.failed - (rows.filtered ?? 0);
  if (open > 0) kinds.push(`${grouped(open)} open`);
  const tokens = `${grouped(prompt_tokens)} in, ${grouped(total_tokens_generated)} out`;
  const speed = tokens_per_sec > 0 ? `, ${rate(tokens_per_sec)} tokens/s` : "";
  const [end, color] = endWord(summary, facts);
  const text = (line: string) => clip(line, columns);
  const lines = [
    paint(color, text(`${end}  ${title}`)),
    text(`  rows     ${counted(rows.total, "row")}: ${kinds.join(", ")}`),
    text(`  tokens   ${tokens}`),
    ...(facts.wasSealed ? [] : [text(`  time     ${duration(run_time_sec)}${speed}`)]),
    ...(summary.usd === undefined ? [] : [text(`  cost     ${dollars(summary.usd)}`)]),
    ...(duplicates === undefined ? [] : labeled("ids", duplicates, columns)),
    ...(stopped_by === undefined ? [] : labeled("cause", stopped_by.message, columns)),
    ...(cut === undefined ? [] : labeled("cut", cut, columns).map((line) => paint("yellow", line))),
    ...reasonLines(summary, columns).map((line) => paint("red", line)),
  ];
  const steps = nextSteps(summary, facts);
  const width = Math.max(...steps.map(([command]) => command.length));
  lines.push(`  ${summary.sealed ? "results" : "run    "}  ${place}`);
  // Longer than the other labels, which need no such space.
  if (facts.cutRetry) steps.push([facts.cutRetry, "processes rows with cut answers again"]);
  for (const [at, [command, what]] of steps.entries()) {
    const label = at === 0 ? "  next     " : "           ";
    const text = `${label}${command.padEnd(width)}`;
    lines.push(
      `${text}  ${what}`.length <= columns ? `${text}  ${paint("dim", what)}` : text.trimEnd(),
    );
  }
  return lines;
}

function endWord(
  { status, sealed }: RunSummary,
  { wasSealed }: SummaryFacts,
): [string, Parameters<Paint>[0]] {
  if (wasSealed) return ["finished before, nothing to do", "green"];
  if (status === "SUCCESS") return ["finished", "green"];
  if (sealed) return ["finished with failed rows", "yellow"];
  return [`${status === "CANCELED" ? "stopped" : "not finished"}, all answers are kept`, "yellow"];
}

/** A possibly long text after its label, broken into lines. */
function labeled(label: string, text: string, columns: number): string[] {
  const indent = 11;
  return wrap(text, Math.max(20, columns - indent)).map((line, at) =>
    clip(`${(at === 0 ? `  ${label}` : "").padEnd(indent)}${line}`, columns),
  );
}

function reasonLines(
  { errors, error_messages, error_hints = {} }: RunSummary,
  columns: number,
): string[] {
  const reasons = Object.entries(errors).sort(([, a], [, b]) => b - a);
  const texts = reasons.slice(0, maxReasons).flatMap(([code, count]) => {
    const hint = error_hints[code];
    const said = `${grouped(count)} ${code}: ${error_messages[code]}`;
    return hint === undefined ? [said] : [said, `hint: ${hint}`];
  });
  const hidden = reasons.slice(maxReasons).reduce((sum, [, count]) => sum + count, 0);
  if (hidden > 0) texts.push(`${grouped(hidden)} for other reasons`);
  return texts.flatMap((text, at) => labeled(at === 0 ? "failed" : "", text, columns));
}

/** Commands that help from here on, with their purpose. */
function nextSteps(
  { sealed, rows, errors, stopped_by: cause, ...paid }: RunSummary,
  { run, budget, isAdvised }: SummaryFacts,
): [string, string][] {
  const spent = { tokens: paid.prompt_tokens + paid.total_tokens_generated, usd: paid.usd };
  if (!sealed) {
    const isPassing = errorTable[cause?.code as ErrorCode]?.exitCode === exitCodes.resumable;
    const what = isPassing ? "continues it" : "continues, once the cause is fixed";
    if (isAdvised) return [];
    if (cause?.code !== "BUDGET_SPENT") return [[`sluice resume ${run}`, what]];
    const larger = run + raised(budget, spent);
    return [[`sluice resume ${larger}`, "continues with a larger budget"]];
  }
  if (rows.failed === 0) return [[`sluice results ${run}`, "prints the answers"]];
  return [
    [`sluice results ${run} --failed`, "prints the failed rows, with causes"],
    ...retrySteps(Object.keys(errors), run + raisedIfSpent(budget, spent)),
  ];
}

/** Faults of a row itself, to be corrected in the input. */
const rowFaults: ReadonlySet<string> = new Set<ErrorCode>([
  ...(["JSON_INVALID", "CSV_INVALID", "ROW_SCHEMA", "ROW_NOT_OBJECT", "UTF8_INVALID"] as const),
  ...(["NUL_BYTE", "ID_INVALID", "VARIABLE_MISSING", "FIELD_TYPE", "COLUMN_INVALID"] as const),
  ...(["PARAMETER_MISSING", "PARAMETER_INVALID", "FILE_UNREADABLE"] as const),
]);

type Amounts = Readonly<Record<string, number | null | undefined>>;

/** The flags that raise a budget which is spent; none for any other. */
export function raisedIfSpent(budget: Amounts, spent: Amounts): string {
  const isSpent = Object.entries(budget).some(([key, limit]) => (spent[key] ?? 0) >= (limit ?? 0));
  return isSpent ? raised(budget, spent) : "";
}

/** As much again as is set or spent, whichever is more: a run may spend more than its budget. */
function raised(budget: Amounts, spent: Amounts): string {
  const limits = Object.entries(budget).map(([key, limit]) => {
    const twice = 2 * Math.max(limit ?? 0, spent[key] ?? 0);
    return ` --set budget.${key}=${roundedUp(twice)}`;
  });
  return limits.join("");
}

/** The next number of two digits and zeros: 5,134 is 5,200, and 0.0271 is 0.028. */
function roundedUp(value: number): number {
  const unit = 10 ** (Math.floor(Math.log10(value)) - 1);
  return Number((Math.ceil(value / unit) * unit).toPrecision(2));
}

/**
 * Commands that send failed rows again: faults of a row must be corrected first.
 *
 * @param run may have flags behind it.
 */
export function retrySteps(codes: readonly string[], run: string): [string, string][] {
  const isPassing = (code: string) => errorTable[code as ErrorCode]?.retryable === true;
  const others = codes.filter((code) => !rowFaults.has(code));
  const steps: [string, string][] = [];
  if (others.length > 0) {
    const when = others.every(isPassing) ? "" : ", once the cause is fixed";
    steps.push([`sluice retry ${run}`, `processes them again${when}`]);
  }
  if (others.length < codes.length) {
    steps.push([
      `sluice retry ${run} --reread`,
      "processes them again, once the input is corrected",
    ]);
  }
  return steps;
}
