import { describeEngine } from "../../engines/registry.ts";
import { sleep } from "../../foundation/clock.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, Usage } from "../../foundation/inference.ts";
import type { PromptOptions } from "../../prompt/prompt-options.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { RowRequest } from "../../prompt/row-request.ts";
import { type Prices, pricesOf, usdOf } from "../bill/costs.ts";
import {
  exactly,
  type Interval,
  intervalOf,
  productOf,
  scaled,
  unitsOf,
} from "../bill/interval.ts";
import type { JobSpec } from "../job/schema.ts";
import { RowFiles } from "../plan/job-files.ts";
import { parametersOf, promptSetOf } from "../plan/job-prompts.ts";
import type { Plan } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import { type SampledRow, spreadRows } from "./sample-rows.ts";

/** The requests and cost of a whole run, estimated from some of its rows. */
export interface Estimate {
  /** `planned` is null if lists decide the number: then it is estimated. */
  requests: { planned: number | null } & Interval;
  tokens: {
    prompt: Interval;
    /** From characters alone, anything up to the limit of every answer. */
    completion: Interval;
    /**
     * The source of the answers' limit: the job or its rows, the engine's default, or none, as with
     * servers that decide.
     */
    limitedBy: "job" | "engine" | "nothing";
    /** Assumed most tokens of an answer without a limit. */
    defaultLimit: number;
    charactersPerToken: number;
  };
  /** US dollars; null if the job names no prices. */
  usd: Interval | null;
  /** Duration from the start; null if no request was sent. */
  seconds: Interval | null;
  /**
   * The basis for tokens: characters of prompts, requests sent for the estimate, or the cost so far
   * of the run at the output.
   */
  basis: "characters" | "measured" | "run";
  /** Sent rows, for `measured` and `run`. */
  measuredRows: number;
}

/** A row with its requests, or the reason why it has none. */
export interface RenderedRow extends SampledRow {
  requests: readonly RowRequest[];
}

export interface EstimateFacts {
  job: JobSpec;
  plan: Plan;
  sampled: readonly RenderedRow[];
}

export interface RowCost {
  task: number;
  usage: Usage;
  /** Time from request to answer, over all its requests together. */
  seconds: number;
  /** Characters of its prompts; undefined if they were not counted. */
  characters?: number;
}

export const maxSampledRows = 200;
/** How long rendering may block the process, beyond one row. */
const maxDeafMs = 50;
const charactersPerToken = 4;

/** Renders rows that are spread evenly over the input, at most `maxSampledRows`. */
export async function sampleRequests(
  context: RunContext,
  signal?: AbortSignal,
): Promise<RenderedRow[]> {
  return await renderedRows(context, await spreadRows(context, maxSampledRows), signal);
}

/**
 * Renders rows one after the other, until an abort. A template may take a second a row: in between,
 * the process handles signals and workers.
 */
export async function renderedRows(
  { plan: { job, seed }, clock }: RunContext,
  rows: readonly SampledRow[],
  signal?: AbortSignal,
): Promise<RenderedRow[]> {
  const [promptSet, rowFiles] = [promptSetOf(job, seed), new RowFiles(job)];
  const rendered: RenderedRow[] = [];
  let heardMs = clock.monotonic();
  for (const row of rows) {
    if (clock.monotonic() - heardMs > maxDeafMs) {
      await sleep(clock, 0);
      heardMs = clock.monotonic();
    }
    if (signal?.aborted) break;
    rendered.push(renderedRow(promptSet, rowFiles, row));
  }
  return rendered;
}

function renderedRow(promptSet: PromptSet, rowFiles: RowFiles, row: SampledRow): RenderedRow {
  if (row.error) return { ...row, requests: [] };
  try {
    const requests = promptSet.requests(row.value!, row.index, row.dataset, row.raw);
    return { ...row, requests: rowFiles.whole(requests, row.file) };
  } catch (error) {
    return { ...row, error: asSluiceError(error), requests: [] };
  }
}

/** The cost of sending every row of the plan, by the characters of the sampled ones. */
export function estimateFrom(job: JobSpec, plan: Plan, sampled: readonly RenderedRow[]): Estimate {
  const requests = estimatedRequests(job, plan, sampled);
  const prompt = scaled(estimatedCharacters(plan, sampled), 1 / charactersPerToken);
  const asked: Limited[] = sampled.flatMap((row) => row.requests);
  // Lines of a batch file set their own limits.
  const parameters = parametersOf(job, plan.seed);
  if (asked.length === 0) asked.push({ parameters });
  const mostTokens = asked.reduce((all, request) => all + mostTokensOf(request), 0) / asked.length;
  const most = requests.high * mostTokens;
  const completion = { estimated: requests.estimated * mostTokens, low: 0, high: most };
  return {
    requests,
    tokens: {
      prompt: whole(prompt),
      completion: whole(completion),
      limitedBy: limitOf(job, asked),
      defaultLimit: parameters.maxNewTokens,
      charactersPerToken,
    },
    usd: priced(prompt, 0, completion, pricesOf(job)),
    seconds: null,
    basis: "characters",
    measuredRows: 0,
  };
}

/** How fast rows were answered. */
export interface Pace {
  startSeconds: number;
  /** Requests answered in parallel: likely, at most, at least. */
  together: Interval;
}

/**
 * A better estimate, from the real cost of some rows: each number is scaled up from the rows, and
 * prompt tokens by the ratio of tokens to characters, which varies less.
 */
export function estimateFromCosts(
  byCharacters: Estimate,
  facts: EstimateFacts,
  costs: readonly RowCost[],
  pace: Pace | undefined,
  basis: "measured" | "run",
): Estimate {
  const { job, plan, sampled } = facts;
  const perRow = (numberOf: (cost: RowCost) => number) =>
    intervalOf(
      unitsOf(costs.map((cost) => ({ task: cost.task, size: 1, value: numberOf(cost) }))),
      plan.rows,
    );
  const prompt =
    byRatio(costs, estimatedCharacters(plan, sampled)) ?? perRow((it) => it.usage.promptTokens);
  const completion = perRow((it) => it.usage.completionTokens);
  const sum = (key: keyof Usage) => costs.reduce((all, { usage }) => all + usage[key], 0);
  const [read, cached] = [sum("promptTokens"), sum("cachedTokens")];
  const characters = costs.reduce((all, cost) => all + (cost.characters ?? 0), 0);
  const perToken = characters > 0 && read > 0 ? characters / read : charactersPerToken;
  return {
    ...byCharacters,
    tokens: {
      ...byCharacters.tokens,
      prompt: whole(prompt),
      completion: whole(completion),
      charactersPerToken: Math.round(perToken * 100) / 100,
    },
    usd: priced(prompt, read === 0 ? 0 : cached / read, completion, pricesOf(job)),
    seconds: pace
      ? timeOf(
          perRow((it) => it.seconds),
          pace,
        )
      : null,
    basis,
    measuredRows: costs.length,
  };
}

function timeOf(busy: Interval, { startSeconds, together }: Pace): Interval {
  return {
    estimated: startSeconds + busy.estimated / together.estimated,
    low: startSeconds + busy.low / together.high,
    high: startSeconds + busy.high / together.low,
  };
}

/** Undefined if characters were not counted. */
function byRatio(costs: readonly RowCost[], characters: Interval): Interval | undefined {
  const counted = costs.flatMap(({ task, usage, characters: size = 0 }) =>
    size > 0 ? [{ task, size, value: usage.promptTokens }] : [],
  );
  if (counted.length < 2 || characters.estimated === 0) return undefined;
  const ratio = scaled(
    intervalOf(unitsOf(counted), characters.estimated),
    1 / characters.estimated,
  );
  return productOf(ratio, characters);
}

function estimatedRequests(
  job: JobSpec,
  plan: Plan,
  sampled: readonly RenderedRow[],
): Estimate["requests"] {
  const prompts = promptsOfRow(job);
  if (!prompts.some(asksList)) {
    const planned = plan.rows * prompts.length;
    return { planned, ...exactly(planned) };
  }
  const fine = sampled.filter(({ error }) => !error);
  const rows = fine.map(({ task, requests }) => ({ task, size: 1, value: requests.length }));
  // Broken rows count like others: a sample says too little about them.
  const share = sampled.length === 0 ? 1 : fine.length / sampled.length;
  const found = intervalOf(unitsOf(rows), Math.round(plan.rows * share));
  return { planned: null, ...whole(scaled(found, share === 0 ? 1 : 1 / share)) };
}

function estimatedCharacters(plan: Plan, sampled: readonly RenderedRow[]): Interval {
  const rows = sampled.map((row) => ({ task: row.task, size: 1, value: charactersOf(row) }));
  return intervalOf(unitsOf(rows), plan.rows);
}

/** Characters of all prompts of a row; a broken row sends none. */
export function charactersOf({ requests }: RenderedRow): number {
  return requests.reduce((all, request) => all + lengthOf(request), 0);
}

function lengthOf({ prompt = "", messages = [] }: RowRequest): number {
  return messages.reduce((length, { content }) => length + content.length, prompt.length);
}

type Limited = Pick<InferenceRequest, "embed" | "file" | "parameters">;

function limitOf({ model }: JobSpec, asked: readonly Limited[]): Estimate["tokens"]["limitedBy"] {
  const isWritten = (request: Limited) =>
    mostTokensOf(request) === 0 ||
    ["maxNewTokens", "maxLength"].some((key) => request.parameters.explicit?.includes(key)) ||
    request.parameters.maxLength !== undefined;
  if (asked.every(isWritten)) return "job";
  return describeEngine(model).maxNewTokens === null ? "nothing" : "engine";
}

function mostTokensOf({ embed, file, parameters }: Limited): number {
  const { maxNewTokens, numReturnSequences = 1 } = parameters;
  return embed || file !== undefined ? 0 : numReturnSequences * maxNewTokens;
}

// The bounds of both together are wider than necessary: both would have to be wrong at once.
function priced(
  prompt: Interval,
  cachedShare: number,
  completion: Interval,
  prices: Prices,
): Interval | null {
  if (!prices) return null;
  const at = (bound: keyof Interval) => {
    const [promptTokens, completionTokens] = [prompt[bound], completion[bound]];
    const cachedTokens = promptTokens * cachedShare;
    return usdOf({ promptTokens, cachedTokens, completionTokens }, prices) ?? 0;
  };
  return { estimated: at("estimated"), low: at("low"), high: at("high") };
}

function whole({ estimated, low, high }: Interval): Interval {
  if (low === high) return exactly(Math.round(estimated));
  return {
    estimated: Math.round(estimated),
    low: Math.floor(low),
    high: Math.ceil(high - 1e-6),
  };
}

/** The prompts of a row; with datasets, which have one each, any that iterates over a list. */
export function promptsOfRow({ dataset, prompt, prompts }: JobSpec): (ListPrompt | undefined)[] {
  if (dataset) return [dataset.find(asksList) ?? dataset[0]];
  return Object.values(prompts ?? { prompt });
}

type ListPrompt = Partial<Pick<PromptOptions, "forEach" | "turns">>;

/** True if a row's own data decide its number of requests. */
export function asksList(prompt: ListPrompt | undefined): boolean {
  return prompt?.forEach !== undefined || prompt?.turns === "every";
}
