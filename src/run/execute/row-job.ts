import type { SluiceError } from "../../foundation/errors.ts";
import {
  addUsage,
  type InferenceRequest,
  type InferenceResponse,
  noUsage,
} from "../../foundation/inference.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { TaskAttempt } from "../attempt/attempt.ts";
import { type RequestRecord, requestRecord } from "../attempt/journal-line.ts";

/** One row on its way through the engine: its requests, and what has come back. */
export class RowJob {
  readonly attempt: TaskAttempt;
  readonly index: number;
  readonly requests: InferenceRequest[];
  readonly #responses: (InferenceResponse | undefined)[];
  readonly #tries: Uint8Array;
  #next = 0;
  #outstanding = 0;
  #answered = 0;
  failure: SluiceError | undefined;
  /** Times the engine ended while this row was alone with it. */
  kills = 0;

  constructor(attempt: TaskAttempt, index: number, requests: InferenceRequest[]) {
    this.attempt = attempt;
    this.index = index;
    this.requests = requests;
    this.#responses = new Array(requests.length);
    this.#tries = new Uint8Array(requests.length);
  }

  /** Number of the next request that was not asked yet, or undefined. */
  takeNext(): number | undefined {
    if (this.failure || this.#next >= this.requests.length) return undefined;
    return this.#next++;
  }

  get hasNext(): boolean {
    return this.failure === undefined && this.#next < this.requests.length;
  }

  /** Notes that a request is with the engine, or waits for another try. */
  begin(): void {
    this.#outstanding++;
  }

  /** Notes a try of a request; returns how many that makes. */
  countTry(at: number): number {
    return ++this.#tries[at]!;
  }

  /** Tries of a request so far. */
  triesOf(at: number): number {
    return this.#tries[at]!;
  }

  /** The request is no longer with the engine, and its only try did not count. */
  withdraw(): void {
    this.#outstanding--;
  }

  /** The try did not count: the engine ended, which was not the request's doing. */
  forgetTry(at: number): void {
    this.#tries[at]!--;
  }

  answered(at: number, response: InferenceResponse): void {
    this.#outstanding--;
    this.#responses[at] = response;
    this.#answered++;
  }

  failed(error: SluiceError): void {
    this.#outstanding--;
    this.failure ??= error;
  }

  /** True when nothing of the row is with the engine and nothing more will be asked. */
  get isDone(): boolean {
    if (this.#outstanding > 0) return false;
    return this.failure !== undefined || this.#answered === this.requests.length;
  }

  /** Journals the row's outcome. */
  settle(promptSet: PromptSet): void {
    const records: RequestRecord[] = [];
    let usage = noUsage;
    this.#responses.forEach((response, at) => {
      if (!response) return;
      records.push(requestRecord(response, this.#tries[at]!));
      usage = records.length === 1 ? response.usage : addUsage(usage, response.usage);
    });
    if (!this.failure) {
      const answer = promptSet.answer(this.requests, this.#responses as InferenceResponse[]);
      this.attempt.settleAnswered(this.index, records, usage, JSON.stringify(answer));
      return;
    }
    this.attempt.settleFailed(this.index, {
      error: this.failure,
      attempts: this.#tries.reduce((most, tries) => Math.max(most, tries), 0),
      requests: records,
      planned: this.requests.length,
      ...(records.length > 0
        ? { partial: promptSet.partialAnswer(this.requests, this.#responses) }
        : {}),
    });
  }
}
