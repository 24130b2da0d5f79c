import type { Usage } from "../../foundation/inference.ts";
import type { AttemptCounts } from "../attempt/commit.ts";
import type { Manifest } from "../seal/manifest.ts";
import type { Bill } from "./bill.ts";
import { noPaidAnswers } from "./paid-answers.ts";
import { usdOf } from "./prices.ts";

/**
 * What of a bill follows from the commits, for whoever verifies it: each fact with what is stated
 * and what it should be. Lost answers are only known while there are journals; they and the wall
 * time are taken as they stand.
 */
export function* billedFacts(
  { retries = [] }: Pick<Manifest, "retries">,
  bill: Bill,
  found: Pick<AttemptCounts, "usage" | "invalid">,
): Generator<[fact: string, stated: unknown, follows: unknown]> {
  const { lost, invalid } = bill.paidTwice;
  for (const key of [
    "promptTokens",
    "cachedTokens",
    "completionTokens",
  ] satisfies (keyof Usage)[]) {
    yield [key, bill[key], found.usage[key] + lost[key]];
  }
  yield ["invalid", invalid, found.invalid ?? noPaidAnswers];
  // Retries may have had other prices than those that stand there.
  if (retries.length === 0) yield ["usd", bill.usd, usdOf(bill, bill.prices ?? undefined)];
}
