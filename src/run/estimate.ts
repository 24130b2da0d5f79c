import { asSluiceError } from "../foundation/errors.ts";
import type { InferenceRequest } from "../foundation/inference.ts";
import type { PromptOptions } from "../prompt/prompt-options.ts";
import type { PromptSet } from "../prompt/prompt-set.ts";
import { promptSetOf } from "./askable.ts";
import { generationParameters } from "./job/generation.ts";
import type { JobSpec } from "./job/schema.ts";
import type { Plan } from "./plan.ts";
import type { RunContext } from "./run-context.ts";
import { type SampledRow, spreadRows } from "./sample-rows.ts";

/** What a run will ask, estimated from some of its rows. */
export interface Estimate {
  /** Null where lists decide it: then it is estimated. */
  requests: { planned: number | null; estimated: number };
  tokens: {
    /** Estimated at `charactersPerToken`, from the sample. */
    prompt: number;
    /** No more than these: `maxNewTokens` for every answer. */
    maxCompletion: number;
    charactersPerToken: number;
  };
}

/** A row with the requests that it becomes, or why it becomes none. */
export interface AskedRow extends SampledRow {
  requests: readonly InferenceRequest[];
}

export const maxSampledRows = 200;
const charactersPerToken = 4;

/** Renders rows that are spread evenly over the input, at most `maxSampledRows`. */
export async function sampleRequests(context: RunContext): Promise<AskedRow[]> {
  const promptSet = promptSetOf(context.plan.job, context.plan.seed);
  return (await spreadRows(context, maxSampledRows)).map((row) => askedRow(promptSet, row));
}

/** The requests of one row. */
export function askedRow(promptSet: PromptSet, row: SampledRow): AskedRow {
  if (row.error) return { ...row, requests: [] };
  try {
    return { ...row, requests: promptSet.requests(row.value!, row.index, row.dataset) };
  } catch (error) {
    return { ...row, error: asSluiceError(error), requests: [] };
  }
}

/** What asking every row of the plan means, going by the sampled ones. */
export function estimateFrom(job: JobSpec, plan: Plan, sampled: readonly AskedRow[]): Estimate {
  const prompts = Object.values(job.prompts ?? { prompt: job.prompt });
  const hasLists = prompts.some(asksList);
  const fine = sampled.filter(({ error }) => !error);
  const perRow = (total: number) => (fine.length === 0 ? 0 : total / fine.length);
  const sum = (of: (row: AskedRow) => number) => fine.reduce((all, row) => all + of(row), 0);
  const requests = perRow(sum((row) => row.requests.length)) * plan.rows;
  const characters = perRow(sum((row) => row.requests.reduce((all, it) => all + lengthOf(it), 0)));
  const { maxNewTokens, numReturnSequences = 1 } = generationParameters(job.generation, plan.seed);
  const planned = hasLists ? null : plan.rows * prompts.length;
  const estimated = planned ?? Math.round(requests);
  const asked = fine.flatMap((row) => row.requests);
  // Lines of a batch file set their own limits.
  const mostTokens =
    asked.length === 0
      ? numReturnSequences * maxNewTokens
      : asked.reduce((all, request) => all + mostTokensOf(request), 0) / asked.length;
  return {
    requests: { planned, estimated },
    tokens: {
      prompt: Math.round((characters * plan.rows) / charactersPerToken),
      maxCompletion: Math.round(estimated * mostTokens),
      charactersPerToken,
    },
  };
}

function mostTokensOf({ embed, parameters }: InferenceRequest): number {
  const { maxNewTokens, numReturnSequences = 1 } = parameters;
  return embed ? 0 : numReturnSequences * maxNewTokens;
}

function lengthOf({ prompt = "", messages = [] }: InferenceRequest): number {
  return messages.reduce((length, { content }) => length + content.length, prompt.length);
}

/** True where a row's own data say how often it is asked. */
export function asksList(prompt: PromptOptions | undefined): boolean {
  return prompt?.forEach !== undefined || prompt?.turns === "every";
}
