import { describeEngine } from "../../engines/registry.ts";
import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import type { JobSpec } from "../job/schema.ts";

/** Prices of tokens; undefined if the job gives none. */
export type Prices = Omit<NonNullable<JobSpec["prices"]>, "batchShare"> | undefined;

/** The share of their prices that most providers take for the requests of batches. */
const usualBatchShare = 0.5;

/** The prices of a job's requests: those of batches if it sends them in such. */
export function pricesOf({ model, prices }: Pick<JobSpec, "model" | "prices">): Prices {
  if (!prices) return undefined;
  const { batchShare = usualBatchShare, ...single } = prices;
  if (!describeEngine(model).sendsBatches?.(model)) return single;
  const { promptUsdPerMillion, cachedPromptUsdPerMillion, completionUsdPerMillion } = single;
  return {
    promptUsdPerMillion: promptUsdPerMillion * batchShare,
    completionUsdPerMillion: completionUsdPerMillion * batchShare,
    ...(cachedPromptUsdPerMillion !== undefined && {
      cachedPromptUsdPerMillion: cachedPromptUsdPerMillion * batchShare,
    }),
  };
}

const tokensPerPrice = 1_000_000;
/** A billionth of a dollar: far below the price of any token. */
const digits = 1e9;

/** The cost of tokens in US dollars; null without prices. */
export function usdOf(usage: Usage, prices: Prices): number | null {
  if (!prices) return null;
  const { promptUsdPerMillion, completionUsdPerMillion } = prices;
  const { cachedPromptUsdPerMillion = promptUsdPerMillion } = prices;
  const { promptTokens, cachedTokens, completionTokens } = usage;
  const perMillion =
    (promptTokens - cachedTokens) * promptUsdPerMillion +
    cachedTokens * cachedPromptUsdPerMillion +
    completionTokens * completionUsdPerMillion;
  return Math.round((perMillion / tokensPerPrice) * digits) / digits;
}

export function tokensOf({ promptTokens, completionTokens }: Usage): number {
  return promptTokens + completionTokens;
}

/** The budget of a run; an absent limit is none. */
export type Budget = NonNullable<JobSpec["budget"]>;

/** The cost of a run so far. */
export interface Spending {
  tokens: number;
  /** Null without prices. */
  usd: number | null;
  minutes: number;
}

export interface PaidAnswers extends Usage {
  /** How many. */
  answers: number;
}

export const noPaidAnswers: PaidAnswers = Object.freeze({ answers: 0, ...noUsage });

export function addPaidAnswers(a: PaidAnswers, b: PaidAnswers): PaidAnswers {
  return { answers: a.answers + b.answers, ...addUsage(a, b) };
}
