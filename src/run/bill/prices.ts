import type { Usage } from "../../foundation/inference.ts";
import type { JobSpec } from "../job/schema.ts";

/** What tokens cost; undefined where the job does not say. */
export type Prices = JobSpec["prices"];

const tokensPerPrice = 1_000_000;
/** A billionth of a dollar: far below what any one token costs. */
const digits = 1e9;

/** What tokens cost in US dollars; null without prices. */
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

/** Tokens in and out. */
export function tokensOf({ promptTokens, completionTokens }: Usage): number {
  return promptTokens + completionTokens;
}
