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
import { reportPath } from "../directory/layout.ts";
import type { JobSpec } from "../job/schema.ts";
import { writeWhole } from "../output/hashed-file.ts";
import { promptSetOf } from "../plan/job-prompts.ts";
import { eachTask, type Plan, rowsOfTask, standingPlan } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import { readSeals } from "../seal/seals.ts";
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
 * Prompts are rendered again from the input; failed rows have no entry. Memory stays flat.
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

/** Joins the rows of the first plan with their results. */
async function* reportedPrompts(context: RunContext): AsyncGenerator<ReportedPrompt> {
  const { storage, outside, clock } = context;
  const { sealed } = await readSeals(storage, context.plan);
  const plan = await standingPlan(storage, sealed?.standing);
  const promptSet = promptSetOf(plan.job, plan.seed);
  const linesOf = (failed: boolean) =>
    parsedLines(resultChunks(storage, outside, { failed, follow: false, clock }));
  const results = linesOf(false);
  const failures = linesOf(true);
  try {
    let failure = await failures.next();
    for await (const row of inputRows(context, plan)) {
      if (!failure.done && failure.value.index === row.index) {
        failure = await failures.next();
        continue;
      }
      const result = await results.next();
      if (result.done) throw new SluiceError("RUN_DAMAGED", `row ${row.index} has no result`);
      yield* promptsOf(plan.job, promptSet, row, result.value);
    }
  } finally {
    // Their files stay open until they are at their end.
    await Promise.all([results.return(undefined), failures.return(undefined)]);
  }
}

async function* inputRows(context: RunContext, plan: Plan): AsyncGenerator<InputRow> {
  for await (const task of eachTask(context.storage, plan)) {
    yield* rowsOfTask(context.openFile, plan.job, task);
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
  job: JobSpec,
  promptSet: PromptSet,
  row: InputRow,
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
