import type { Budget, Spending } from "../run/bill/costs.ts";
import type { BatchSum } from "../run/status/events.ts";

/**
 * A count with its noun, thousands grouped.
 *
 * @example
 * counted(1, "row"); // "1 row"
 * counted(12345, "row"); // "12,345 rows"
 */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${grouped(count)} ${count === 1 ? noun : plural}`;
}

/** A whole number with its thousands grouped: `12,345`. */
export function grouped(count: number): string {
  return String(Math.round(count)).replaceAll(/\B(?=(\d{3})+$)/g, ",");
}

/**
 * A size in the unit that suits it, powers of 1000: `512 bytes`, `4.1 kB`, `12 MB`.
 */
export function sized(bytes: number): string {
  if (bytes < 1000) return counted(bytes, "byte");
  let value = bytes / 1000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

const units = ["kB", "MB", "GB", "TB"];

/** US dollars: to the cent, or to three digits if the sum is small: `$12.40`, `$0.00123`. */
export function dollars(usd: number): string {
  const [whole, cents] = usd.toFixed(2).split(".");
  if (usd === 0 || usd >= 1) return `$${grouped(Number(whole))}.${cents}`;
  return usd < 1e-6 ? "below $0.000001" : `$${Number(usd.toPrecision(3))}`;
}

/** How much of each limit of a budget is spent: `1,200/5,000 tokens`, `$0.5/$2.00`. */
export function spentOf({ spent, budget }: { spent: Spending; budget: Budget }): string[] {
  const { tokens, usd, minutes } = budget;
  const texts: string[] = [];
  if (tokens !== undefined) texts.push(`${grouped(spent.tokens)}/${grouped(tokens)} tokens`);
  if (usd !== undefined) texts.push(`${dollars(spent.usd ?? 0)}/${dollars(usd)}`);
  if (minutes !== undefined) texts.push(`${spent.minutes.toFixed(1)}/${minutes} minutes`);
  return texts;
}

/**
 * Batches at a provider by their states; none without any.
 *
 * @example
 * batchesOf([{ state: "in_progress", batches: 2, requests: 10000, done: 4120 }]);
 * // ["2 batches: 2 in_progress (4,120 of 10,000 requests)"]
 */
export function batchesOf(sums: readonly BatchSum[]): string[] {
  if (sums.length === 0) return [];
  const parts = sums.map(({ state, batches, requests, done }) => {
    const share =
      state === "in_progress" ? ` (${grouped(done)} of ${counted(requests, "request")})` : "";
    return `${grouped(batches)} ${state}${share}`;
  });
  const all = sums.reduce((sum, { batches }) => sum + batches, 0);
  return [`${counted(all, "batch", "batches")}: ${parts.join(", ")}`];
}
