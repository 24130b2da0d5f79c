import { describeEngine } from "../../engines/registry.ts";
import type { InferenceRequest } from "../../foundation/inference.ts";
import { isOwnHost } from "../../foundation/reach.ts";
import { shownPath, shownText } from "../../foundation/shown-path.ts";
import type { JobSpec } from "../job/schema.ts";
import { writesBatchLines } from "../openai-batch/batch-lines.ts";
import {
  estimateFrom,
  type RenderedRow,
  renderedRows,
  sampleRequests,
} from "../preview/estimate.ts";
import { firstRows } from "../preview/sample-rows.ts";
import type { RunContext } from "../run-context.ts";
import type { InputSummary, Plan } from "./plan.ts";

/** Rows that a run examines before its first request; a preview has rows of its own. */
const maxRowsLookedAt = 20;

/** Findings about a job in the first rows of a run, those rendered before an abort. */
export async function firstRowsNotices(
  context: RunContext,
  signal: AbortSignal,
): Promise<string[]> {
  try {
    const rows = await firstRows(context, maxRowsLookedAt);
    return sampleNotices(context.plan.job, await renderedRows(context, rows, signal));
  } catch {
    // Unreadable rows stop the run when it reads them, with a fuller message.
    return [];
  }
}

/** Notices about a job that only its rows show: each once, with the key. */
export function sampleNotices(job: JobSpec, rows: readonly RenderedRow[]): string[] {
  return [replacedFieldNotice(job, rows), ...unansweredTurnsNotices(job, rows)].filter(
    (notice) => notice !== undefined,
  );
}

function replacedFieldNotice(job: JobSpec, rows: readonly RenderedRow[]): string | undefined {
  const { field } = job.output;
  if (writesBatchLines(job)) return undefined;
  const row = rows.find(({ value }) => value !== undefined && Object.hasOwn(value, field));
  if (row === undefined) return undefined;
  return (
    `rows have a field ${field} already (${shownPath(row.file)}:${row.line}): in the results the model's ` +
    "answer replaces it; to keep it, set output.field to another name"
  );
}

/** Conversations that have only questions; by default, nothing is sent between them. */
function unansweredTurnsNotices(job: JobSpec, rows: readonly RenderedRow[]): string[] {
  const notices = new Map<string, string>();
  for (const { file, line, requests } of rows) {
    for (const request of requests) {
      const key = defaultTurnsKey(job, request.origin.promptName);
      if (key === undefined || notices.has(key) || !asksSeveralAtOnce(request)) continue;
      notices.set(
        key,
        `${shownPath(file)}:${line} has several messages of the user and no answer between them, and all ` +
          `are sent at once: set ${key} to every (one after another), to first, or to last (as ` +
          "it is, without this notice)",
      );
    }
  }
  return [...notices.values()];
}

/** Key of the `turns` that a prompt takes by default; undefined if the job sets them. */
function defaultTurnsKey(job: JobSpec, promptName: string): string | undefined {
  const { dataset, prompt, prompts } = job;
  const at = dataset?.findIndex(({ name }) => name === promptName) ?? -1;
  const options = prompt ?? prompts?.[promptName] ?? dataset?.[at];
  if (options?.type === undefined || options.turns !== undefined) return undefined;
  if (prompt !== undefined) return "prompt.turns";
  return dataset === undefined ? `prompts.${promptName}.turns` : `dataset.${at}.turns`;
}

function asksSeveralAtOnce({ messages = [] }: InferenceRequest): boolean {
  const users = messages.filter(({ role }) => role === "user");
  return users.length > 1 && !messages.some(({ role }) => role === "assistant");
}

/** Notices about how an input was read and cut. */
export function inputNotices({ input }: Plan): string[] {
  const { lineFiles = 0, leftOutFiles = 0, leftOutResults = 0 } = input;
  const notices = cutNotices(input);
  if (lineFiles > 0) {
    const are = lineFiles === 1 ? "1 file of text is read" : `${lineFiles} files of text are read`;
    notices.push(
      `${are} line by line: each line is a row; for one row a file, set input.format to text-file`,
    );
  }
  if (leftOutFiles > 0) {
    const are = leftOutFiles === 1 ? "1 file is" : `${leftOutFiles} files are`;
    notices.push(`${are} left out of the input's folder: no format is known by the ending`);
  }
  if (leftOutResults > 0) notices.push(leftOutNotice(leftOutResults));
  return notices;
}

/** Says that results of runs were found below the input, and not read. */
export function leftOutNotice(files: number): string {
  const are = files === 1 ? "1 file is" : `${files} files are`;
  return `${are} left out of the input: runs made them; name a run's folder to read it`;
}

function cutNotices({ compressedFiles = 0, largestTaskRows }: InputSummary): string[] {
  if (compressedFiles === 0) return [];
  const what =
    compressedFiles === 1
      ? "1 file is compressed or of another encoding, so that it cannot be cut: it is one task"
      : `${compressedFiles} files are compressed or of another encoding, so that they cannot be ` +
        "cut: each lies in one task";
  if (largestTaskRows === undefined) return [what];
  const largest = largestTaskRows.toLocaleString("en");
  return [`${what}, the largest of ${largest} rows; more files share work out better`];
}

/** Most characters of a command line to show. */
const maxShownChars = 200;

/**
 * What a job does beyond reading its input and writing its output, one line each: programs that it
 * executes, variables that it sets for its workers, and the receivers of its secrets.
 *
 * @example
 * effectNotices(job); // ["this job executes python3 predict.py"]
 */
export function effectNotices(job: JobSpec): string[] {
  const { model, env } = job;
  const executed = [...new Set(describeEngine(model).executes?.(model))];
  const variables = Object.keys(env).filter((name) => env[name] !== null);
  const lines: [what: string, of: readonly string[]][] = [
    ["executes", executed.map((text) => shownText(text).slice(0, maxShownChars))],
    ["sets variables of its workers:", variables],
    ["sends secrets:", sentSecrets(job)],
  ];
  return lines.flatMap(([what, of]) =>
    of.length === 0 ? [] : `this job ${what} ${of.join(", ")}`,
  );
}

function sentSecrets({ model, input, store }: JobSpec): string[] {
  const keys = (describeEngine(model).sendsKeys?.(model) ?? []).map(
    ({ variable, host, isDefault }) => `${variable} to ${host}${isDefault ? ", if it is set" : ""}`,
  );
  const isOfHub = input.some(({ path }) => /^hf:/i.test(path)) || /^hf:/i.test(model.name ?? "");
  const hub = isOfHub ? ["HF_TOKEN to the hub, if it is set"] : [];
  const endpoint = store?.endpoint;
  const signed = endpoint ? [`what your keys of S3 sign to ${new URL(endpoint).host}`] : [];
  return [...new Set([...keys, ...hub, ...signed])];
}

/**
 * A notice with an estimate of the tokens, before requests go to a server that may charge for them.
 * Undefined for own hosts, for other engines, and if the job has a `budget`, because then the user
 * has considered the cost; also once `signal` is aborted.
 */
export async function hostedNotice(
  context: RunContext,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { job } = context.plan;
  if (job.budget !== undefined) return undefined;
  const servers = describeEngine(job.model).servers?.(job.model) ?? [];
  const hosts = servers.map((address) => new URL(address).hostname);
  const hosted = hosts.find((hostname) => !isOwnHost(hostname));
  if (hosted === undefined) return undefined;
  if (describeEngine(job.model).givesRows) {
    const rows = context.plan.rows.toLocaleString("en");
    return `a stage is about to send ${rows} rows to ${hosted} (set budget to silence this)`;
  }
  const sampled = await sampleRequests(context, signal);
  if (signal.aborted) return undefined;
  const { requests, tokens, usd } = estimateFrom(job, context.plan, sampled);
  const [sent, prompt, completion] = [
    requests.estimated,
    tokens.prompt.estimated,
    tokens.completion.high,
  ].map((count) => count.toLocaleString("en"));
  const money = usd === null ? "" : `, at most $${usd.high.toFixed(2)}`;
  return (
    `about to send ${sent} requests to ${hosted}: about ${prompt} prompt tokens ` +
    `and at most ${completion} new ones${money} (set budget to silence this)`
  );
}
