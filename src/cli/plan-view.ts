import type { Storage } from "../data/storage/storage.ts";
import type { InferenceRequest } from "../foundation/inference.ts";
import { clipped } from "../foundation/suggest.ts";
import { spacedJson } from "../prompt/value-text.ts";
import type { Advice, AdviceOption } from "../run/advise/advise.ts";
import type { Spending } from "../run/bill/costs.ts";
import type { Interval } from "../run/bill/interval.ts";
import type { RunPreview, ShownRow } from "../run/preview/preview.ts";
import { duration } from "../terminal/progress-view.ts";
import { counted, dollars, grouped, sized } from "../terminal/quantities.ts";
import { right, table } from "../terminal/table.ts";

/** Longest text of a message to show in full. */
const maxShownCharacters = 2000;
const maxShownRequests = 5;

export function previewLines(preview: RunPreview): string[] {
  const { input, tasks, rows, requests, sampledRows } = preview;
  const size = `${counted(input.files, "file")}, ${sized(input.bytes)}`;
  const planned = rows === input.rows ? "all rows" : counted(rows, "row");
  const most = input.largestTaskRows ?? input.rowsPerTask;
  const cut = `${counted(tasks, "task")} of up to ${counted(most, "row")}`;
  const lines = [
    `input     ${size}, ${counted(input.rows, "row")}`,
    `process   ${planned} in ${cut}`,
    requests.planned === null
      ? `requests  ${about(requests, grouped)}: lists decide how many, see below`
      : `requests  ${grouped(requests.planned)}`,
    ...costLines(preview),
    `workers   ${preview.workers}`,
    `seed      ${preview.seed ?? "drawn at the start"}`,
    `output    ${preview.output}`,
    `digest    ${preview.digest}`,
  ];
  const { spent } = preview.standing ?? {};
  if (spent) lines.push(`spent     ${spentLine(spent)}`);
  for (const notice of preview.notices) lines.push(`note: ${notice}`);
  for (const { code, rows: count, message, first } of preview.warnings) {
    const place = message.includes(first.file) ? "" : `, first ${first.file}:${first.line}`;
    const share = `${grouped(count)} of ${counted(sampledRows, "sampled row")}`;
    lines.push(`warning: ${share}: ${code}: ${message}${place}`);
  }
  for (const row of preview.shown) lines.push("", ...rowLines(row));
  return lines;
}

/** Tokens, money and time, with the basis of their estimate. */
function costLines({ tokens, usd, seconds, basis, measuredRows, sampledRows }: RunPreview) {
  const { prompt, completion, charactersPerToken } = tokens;
  const perToken = `characters / ${charactersPerToken}`;
  if (basis === "characters") {
    const most = tokens.limitedBy === "nothing" ? "perhaps" : "at most";
    const lines = [
      `tokens    ${about(prompt, grouped)} in, ${most} ${grouped(completion.high)} out`,
      `          in: ${perToken} of ${counted(sampledRows, "sampled row")}, a chat template adds some`,
      ...limitLines(tokens),
    ];
    return usd === null ? lines : [...lines, `money     ${most} ${dollars(usd.high)}`];
  }
  const rows =
    basis === "run"
      ? `${counted(measuredRows, "row")} that the run there has done`
      : `${counted(measuredRows, "measured row")}, ${perToken}`;
  const lines = [
    `tokens    ${about(prompt, grouped)} in, ${about(completion, grouped)} out`,
    `          from ${rows}; bounds of 95 %`,
  ];
  if (usd !== null) lines.push(`money     ${about(usd, dollars)}`);
  if (seconds !== null) lines.push(`time      ${about(seconds, duration)}`);
  return lines;
}

/** The limit of the answers, and so of the estimate of their tokens. */
function limitLines({ limitedBy, defaultLimit }: RunPreview["tokens"]): string[] {
  const measure = "--measure processes some rows and tells more";
  const tokens = `${grouped(defaultLimit)} tokens for each request`;
  const lines = {
    job: [`out: maxNewTokens for each request; ${measure}`],
    engine: [
      `out: ${tokens}, the engine's default; generation.maxNewTokens sets another`,
      `     limit; ${measure}`,
    ],
    nothing: [
      `out: ${tokens} are assumed; nothing limits answers but the server:`,
      `     set generation.maxNewTokens; ${measure}`,
    ],
  };
  return lines[limitedBy].map((line) => `${" ".repeat(10)}${line}`);
}

/** `about 1,200 (1,100 to 1,300)`; a number alone if it is not an estimate. */
function about({ estimated, low, high }: Interval, text: (value: number) => string): string {
  const [most, ...bounds] = [text(estimated), text(low), text(high)];
  return bounds.every((bound) => bound === most)
    ? `about ${most}`
    : `about ${most} (${bounds.join(" to ")})`;
}

function spentLine({ tokens, usd, minutes }: Spending): string {
  const money = usd === null ? "" : `${dollars(usd)}, `;
  return `${counted(tokens, "token")}, ${money}${duration(minutes * 60)} so far`;
}

function rowLines({ index, file, line, requests, error }: ShownRow): string[] {
  const lines = [`── row ${index} (${file}:${line})`];
  if (error !== null) return [...lines, `   fails: ${error}`];
  if (requests.length === 0) lines.push("   sends nothing: its lists are empty");
  for (const request of requests.slice(0, maxShownRequests)) lines.push(...requestLines(request));
  const hidden = requests.length - maxShownRequests;
  if (hidden > 0) lines.push(`   and ${counted(hidden, "more request")}`);
  return lines;
}

function requestLines(request: ShownRow["requests"][number]): string[] {
  const element = request.element === undefined ? "" : `, element ${request.element}`;
  const lines = [`   ${request.promptName}${element}`];
  for (const { role, content } of request.messages ?? []) {
    const shown = typeof content === "string" ? content : spacedJson([...content]);
    lines.push(...textLines(role, shown));
  }
  if (request.prompt !== undefined) {
    lines.push(...textLines(request.embed ? "embedding" : "completion", request.prompt));
  }
  const asFile = request.messages ? "image" : "transcription";
  if (request.file !== undefined) lines.push(...textLines(asFile, request.file));
  if (request.row) lines.push(...textLines("row", spacedJson(request.row)));
  if (request.schema) lines.push(...textLines("answer", spacedJson(request.schema)));
  if (request.slottedLine) lines.push(...slotLines(request.slottedLine));
  return lines;
}

function textLines(role: string, text: string): string[] {
  const hidden = text.length - maxShownCharacters;
  const cut = clipped(text, maxShownCharacters);
  const rest = hidden > 0 ? [`       (${counted(hidden, "more character")})`] : [];
  return [`     [${role}]`, ...cut.split("\n").map((line) => `       ${line}`), ...rest];
}

function slotLines({ line, slots }: NonNullable<InferenceRequest["slottedLine"]>): string[] {
  const facts = slots.map(({ name, orElse, maxWords, pattern }) => {
    const form = pattern === undefined ? "" : ` like /${pattern}/`;
    const words = counted(maxWords, "word");
    return `       {${name}}: at most ${words} of the source${form}, or "${orElse}"`;
  });
  return [`     [answer] ${line}`, ...facts];
}

/**
 * The commands that start work on a frozen plan; only the first one carries out all of it.
 *
 * @param run as arguments of a command.
 */
export function workerCommands(run: string, tasks: number, { createsOnce }: Storage): string[] {
  // Workers that join need a store that can create an object once.
  if (createsOnce === false) return [`sluice resume ${run}`];
  const last = tasks - 1;
  return [
    `sluice worker ${run} --tasks ${last > 0 ? `0-${last}` : "0"}`,
    `sluice worker ${run} --share 0/${Math.min(16, Math.max(1, tasks))}`,
  ];
}

/** Advice as lines for people: a table, the proposal, and the objections. */
export function adviceLines(advice: Advice): string[] {
  const { proposed, options, meetsDeadline, warnings } = advice;
  const { workers, shards, rowsPerShard, shardSeconds, seconds, usd } = proposed;
  const titles = ["workers", "tasks", "rows each", "a task", "time"];
  const columns = ["", ...[...titles, ...(usd ? ["machines"] : []), "lost"].map(right)];
  const cut = `${counted(shards, "task")} of ${counted(rowsPerShard, "row")}`;
  const end = meetsDeadline === false ? ", which is too late" : "";
  return [
    ...table(
      columns,
      options.map((option) => cellsOf(option, option.workers === workers)),
    ),
    "",
    `proposed  ${counted(workers, "worker")}, ${cut}: ${span(shardSeconds)} each`,
    `time      about ${span(seconds.estimated)}, up to ${span(seconds.high)}${end}`,
    ...(usd ? [`machines  about ${dollars(usd.estimated)} (${bounds(usd)})`] : []),
    `start     ${span(advice.startSeconds)} until a machine processes its first row`,
    `preempted ${lossText(advice)}`,
    `flags     --shard.rows ${rowsPerShard} --workers.max ${workers}`,
    ...warnings.map((warning) => `warning: ${warning}`),
  ];
}

function cellsOf(option: AdviceOption, isProposed: boolean): string[] {
  const { workers, shards, rowsPerShard, shardSeconds, seconds, usd, lostShare } = option;
  return [
    isProposed ? "→" : "",
    grouped(workers),
    grouped(shards),
    grouped(rowsPerShard),
    span(shardSeconds),
    span(seconds.estimated),
    ...(usd ? [dollars(usd.estimated)] : []),
    `${(lostShare * 100).toFixed(1)} %`,
  ];
}

function bounds({ low, high }: Interval): string {
  return `${dollars(low)} to ${dollars(high)}`;
}

function span(seconds: number): string {
  return seconds < 1 ? "<1s" : duration(seconds);
}

function lossText({ lostSecondsPerPreemption, lostSecondsWithoutJournal }: Advice): string {
  const kept = `costs ${span(lostSecondsPerPreemption)} of work`;
  return `${kept}, where the journal is lost as well ${span(lostSecondsWithoutJournal)}`;
}
