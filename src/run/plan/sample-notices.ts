import type { InferenceRequest } from "../../foundation/inference.ts";
import { shownPath } from "../../foundation/shown-path.ts";
import type { JobSpec } from "../job/schema.ts";
import { writesBatchLines } from "../openai-batch/batch-lines.ts";
import { type AskedRow, askedRow } from "../preview/estimate.ts";
import { firstRows } from "../preview/sample-rows.ts";
import type { RunContext } from "../run-context.ts";
import { promptSetOf } from "./askable.ts";
import { RowFiles } from "./asked-files.ts";

/** Rows that a run looks at before it asks anything; a preview has rows of its own. */
const maxRowsLookedAt = 20;

/** What the first rows of a run say about its job; see `sampleNotices`. */
export async function firstRowsNotices(context: RunContext): Promise<string[]> {
  const { job, seed } = context.plan;
  try {
    const [promptSet, rowFiles] = [promptSetOf(job, seed), new RowFiles(job)];
    const rows = await firstRows(context, maxRowsLookedAt);
    return sampleNotices(
      job,
      rows.map((row) => askedRow(promptSet, rowFiles, row)),
    );
  } catch {
    // Rows that cannot be read stop the run where it needs them, and with more to say.
    return [];
  }
}

/** What a person should know of a job that only its rows show: each once, naming the key. */
export function sampleNotices(job: JobSpec, rows: readonly AskedRow[]): string[] {
  return [replacedFieldNotice(job, rows), ...unansweredTurnsNotices(job, rows)].filter(
    (notice) => notice !== undefined,
  );
}

function replacedFieldNotice(job: JobSpec, rows: readonly AskedRow[]): string | undefined {
  const { field } = job.output;
  if (writesBatchLines(job)) return undefined;
  const row = rows.find(({ value }) => value !== undefined && Object.hasOwn(value, field));
  if (row === undefined) return undefined;
  return (
    `rows have a field ${field} already (${shownPath(row.file)}:${row.line}): in the results the model's ` +
    "answer replaces it; to keep it, set output.field to another name"
  );
}

/** Each conversation that has only questions, asked with nothing between them by default. */
function unansweredTurnsNotices(job: JobSpec, rows: readonly AskedRow[]): string[] {
  const notices = new Map<string, string>();
  for (const { file, line, requests } of rows) {
    for (const request of requests) {
      const key = defaultTurnsKey(job, request.origin.promptName);
      if (key === undefined || notices.has(key) || !asksSeveralAtOnce(request)) continue;
      notices.set(
        key,
        `${shownPath(file)}:${line} has several messages of the user and no answer between them, and all ` +
          `are asked at once: set ${key} to every (one after another), to first, or to last (as ` +
          "it is, without this notice)",
      );
    }
  }
  return [...notices.values()];
}

/** Key of the `turns` that a prompt takes by default; undefined where the job says something. */
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
