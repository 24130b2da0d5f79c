import type { SluiceError } from "../../foundation/errors.ts";
import { addUsage, type Usage } from "../../foundation/inference.ts";
import {
  type AttemptCounts,
  addErrors,
  countInvalid,
  countPrepared,
  type PreparedCounts,
} from "./commit.ts";
import type { RequestRecord } from "./journal-line.ts";

/** Counts an attempt's work, together with what it took over from earlier ones. */
export class AttemptTally {
  readonly counts: AttemptCounts;

  constructor(counts: AttemptCounts) {
    this.counts = { ...counts, usage: { ...counts.usage } };
  }

  get done(): number {
    const { answered, failed, filtered } = this.counts.rows;
    return answered + failed + filtered;
  }

  prepared(counts: PreparedCounts): void {
    countPrepared(this.counts, counts);
  }

  /** A wrong answer, which is in no row. */
  invalid(usage: Usage): void {
    Object.assign(this.counts.usage, addUsage(this.counts.usage, usage));
    countInvalid(this.counts, usage);
  }

  answered(requests: readonly RequestRecord[], results: number): void {
    this.counts.rows.answered++;
    this.counts.rows.results += results;
    this.#asked(requests);
  }

  /** A row that a stage left out. */
  filtered(requests: readonly RequestRecord[]): void {
    this.counts.rows.filtered++;
    this.#asked(requests);
  }

  #asked(requests: readonly RequestRecord[]): void {
    const { requests: asked } = this.counts;
    asked.planned += requests.length;
    asked.answered += requests.length;
    this.#paid(requests);
  }

  /** A failed row with `planned` requests. */
  failed(error: SluiceError, requests: readonly RequestRecord[], planned: number): void {
    const { counts } = this;
    counts.rows.failed++;
    counts.requests.planned += planned;
    counts.requests.answered += requests.length;
    this.#paid(requests);
    const { code, message, ownHint: hint } = error;
    counts.errors = addErrors(counts.errors, { [code]: { count: 1, message, hint } });
  }

  #paid(requests: readonly RequestRecord[]): void {
    addReused(this.counts, requests);
    addPaidTokens(this.counts.usage, requests);
  }
}

export function addReused(counts: AttemptCounts, requests: readonly RequestRecord[]): void {
  for (const { reused } of requests) {
    if (reused) counts.requests.reused = (counts.requests.reused ?? 0) + 1;
  }
}

/** Adds the tokens of journaled requests to `usage`, as far as they were paid for. */
export function addPaidTokens(usage: Usage, requests: readonly RequestRecord[]): void {
  for (const request of requests) {
    if (request.reused) continue;
    usage.promptTokens += request.promptTokens;
    usage.cachedTokens += request.cachedTokens ?? 0;
    for (const tokens of request.tokens) usage.completionTokens += tokens;
  }
}
