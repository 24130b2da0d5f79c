import type { InputRow } from "../../data/row.ts";
import { SluiceError } from "../../foundation/errors.ts";
import {
  type InferenceRequest,
  type InferenceResponse,
  noUsage,
} from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { linesOfChunks } from "../../foundation/lines.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { Commit } from "../attempt/commit.ts";
import { reportPath } from "../directory/layout.ts";
import { readJson } from "../directory/records.ts";
import type { JobSpec } from "../job/schema.ts";
import { writeWhole } from "../output/hashed-file.ts";
import { promptSetOf } from "../plan/job-prompts.ts";
import {
  eachTask,
  type Plan,
  readPlan,
  rowsOfTask,
  standingPlan,
  type Task,
} from "../plan/plan.ts";
import { replacedRows } from "../retry/cut-rows.ts";
import type { RunContext } from "../run-context.ts";
import { readManifest } from "../seal/seals.ts";
import type { RunSummary } from "../status/events.ts";
import { resultChunks } from "../status/results.ts";

export interface ReportedPrompt {
  prompt_tokens: number;
  /** Tokens of the prompt and of all answers. */
  total_tokens: number;
  total_response_tokens: number;
  generate_time_sec: number;
  /** The sent text, or the messages if the model's chat template made the text. */
  prompt: Json;
  responses: { response: Json; tokens: number }[];
  /** The row's place in the input, from 0. */
  row: number;
  /** Name of its dataset, if the job has datasets. */
  dataset?: string;
}

/**
 * Writes the results of a sealed run as one object on one line, like Axolotl's batch inference: the
 * fields of the summary, and `response` with an entry for each answered prompt in input order.
 * Prompts are rendered again from the input, those of retried rows as the retry did; failed rows
 * have no entry. Memory stays flat.
 *
 * @throws SluiceError `INPUT_CHANGED` if the input is no longer the planned one.
 */
export async function writeAxolotlReport(context: RunContext, summary: RunSummary): Promise<void> {
  let text = `${JSON.stringify(summary).slice(0, -1)},"response":[`;
  let separator = "";
  await writeWhole(await context.storage.writer(reportPath), async (writer) => {
    for await (const entry of reportedPrompts(context)) {
      text += `${separator}${JSON.stringify(entry)}`;
      separator = ",";
      if (text.length < limits.readChunkBytes) continue;
      await writer.write(Buffer.from(text));
      text = "";
    }
    await writer.write(Buffer.from(`${text}]}\n`));
  });
}

/** Joins the rows, as they were sent last, with their results. */
async function* reportedPrompts(context: RunContext): AsyncGenerator<ReportedPrompt> {
  const { storage, outside, clock } = context;
  const linesOf = (failed: boolean) =>
    parsedLines(resultChunks(storage, outside, { failed, follow: false, clock }));
  const results = linesOf(false);
  const failures = linesOf(true);
  try {
    let failure = await failures.next();
    for await (const asked of askedRows(context)) {
      const { index } = asked.row;
      if (!failure.done && failure.value.index === index) {
        failure = await failures.next();
        continue;
      }
      const result = await results.next();
      if (result.done) throw new SluiceError("RUN_DAMAGED", `row ${index} has no result`);
      yield* promptsOf(asked, result.value);
    }
  } finally {
    // Their files stay open until they are at their end.
    await Promise.all([results.return(undefined), failures.return(undefined)]);
  }
}

/** A row with the job of the generation that its result is from. */
interface AskedRow {
  row: InputRow;
  job: JobSpec;
  promptSet: PromptSet;
}

type AskedRows = AsyncGenerator<AskedRow, void, undefined>;

/** All rows of the run: each from where the generation that its result is from read it. */
async function* askedRows(context: RunContext): AskedRows {
  const { storage, openFile } = context;
  const manifest = (await readManifest(storage))!;
  const generations = new Map<number, { plan: Plan; promptSet: PromptSet }>();
  for (const { generation } of [{ generation: 1 }, ...(manifest.retries ?? [])]) {
    const plan = await readPlan(storage, generation);
    generations.set(generation, { plan, promptSet: promptSetOf(plan.job, plan.seed) });
  }
  async function* rowsOf(generation: number, task: Task): AskedRows {
    const { plan, promptSet } = generations.get(generation)!;
    const { job } = plan;
    for await (const row of rowsOfTask(openFile, job, task)) yield { row, job, promptSet };
  }
  for await (const task of eachTask(storage, await standingPlan(storage, manifest.standing))) {
    const { generation = 1, retried = [] } = manifest.tasks[task.task]!;
    let rows = rowsOf(generation, task);
    for (const { commit, generation } of retried) {
      const { plan } = generations.get(generation)!;
      const recorded = (await readJson<Commit>(storage, commit.path))!;
      const { slices, only } = await replacedRows(storage, plan, recorded);
      // The places of an input that changed since are only in the standing plan.
      const isOfFile = typeof plan.reread === "object";
      const again: Task = { ...task, ...(isOfFile && { slices }), only: only! };
      if (only !== "") rows = replaced(rows, rowsOf(generation, again));
    }
    yield* rows;
  }
}

/** Rows in order, some of them replaced by others with the same index. */
async function* replaced(rows: AskedRows, others: AskedRows): AskedRows {
  try {
    let other = await others.next();
    for await (const asked of rows) {
      if (other.done || other.value.row.index !== asked.row.index) yield asked;
      else {
        yield other.value;
        other = await others.next();
      }
    }
  } finally {
    await others.return();
  }
}

async function* parsedLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<JsonObject> {
  for await (const line of linesOfChunks(chunks)) yield JSON.parse(line) as JsonObject;
}

/** A result's record of one request, in its second column. */
interface Metadata {
  usage: { promptTokens: number; completionTokens: number; answerTokens?: number[] };
  seconds: number;
}

function* promptsOf(
  { row, job, promptSet }: AskedRow,
  result: JsonObject,
): Generator<ReportedPrompt> {
  const { field } = job.output;
  const answer = result[field]!;
  const answers = asksEveryTurn(job, row) ? (answer as Json[]) : [answer];
  const metadata = result[`${field}Metadata`] as unknown as Metadata[];
  const count = job.generation.numReturnSequences ?? 1;
  const requests = promptSet.requests(row.value!, row.index, row.dataset, row.raw);
  const responses: InferenceResponse[] = [];
  for (const at of requests.keys()) {
    const texts = count > 1 ? (answers[at] as Json[]) : [answers[at]!];
    const request = promptSet.ready(requests, responses, at);
    yield reported(request, texts, metadata[at]!, row);
    responses.push(answeredBy(texts));
  }
}

function asksEveryTurn({ dataset, prompt }: JobSpec, row: InputRow): boolean {
  const options = dataset ? dataset.find(({ name }) => name === row.dataset) : prompt;
  return options?.turns === "every";
}

function reported(
  request: InferenceRequest,
  texts: readonly Json[],
  { usage, seconds }: Metadata,
  { index, dataset }: InputRow,
): ReportedPrompt {
  const { promptTokens, completionTokens, answerTokens = [completionTokens] } = usage;
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    total_response_tokens: completionTokens,
    generate_time_sec: seconds,
    prompt: request.prompt ?? (request.messages as unknown as Json),
    responses: texts.map((response, at) => ({ response, tokens: answerTokens[at]! })),
    row: index,
    ...(dataset === undefined ? {} : { dataset }),
  };
}

/** The part of a response that a later turn continues from. */
function answeredBy(texts: readonly Json[]): InferenceResponse {
  const [text] = texts;
  const answer = { text: typeof text === "string" ? text : JSON.stringify(text), tokens: 0 };
  return {
    answers: [{ ...answer, finishReason: "stop" }],
    usage: noUsage,
    seconds: 0,
  };
}
