import type { InputRow } from "../../data/row.ts";
import { asSluiceError, locatedError, type SluiceError } from "../../foundation/errors.ts";
import {
  keptText,
  restoredNumbers,
  type WrittenRow,
  writtenRow,
} from "../../foundation/exact-json.ts";
import type { InferenceResponse } from "../../foundation/inference.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { plainJson } from "../../foundation/typed-json.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { RowRequest } from "../../prompt/row-request.ts";
import type { AnswerFacts, RowToSend, TaskAttempt } from "../attempt/attempt.ts";
import { type RequestRecord, requestRecord } from "../attempt/journal-line.ts";
import type { RowReplies } from "../attempt/replay.ts";
import type { RowSource } from "./row-source.ts";

/** A longer row is not kept during its requests, but read again for the part. */
const maxHeldRowChars = 16 * 1024;

/** Most short answers are ASCII and their own JSON: to see that takes half of the time. */
const beyondPlain = /[^ !#-[\]-~]/;
const ascii: AnswerFacts = { isAscii: true };

/** One row on its way through the engine: its requests, and what has come back. */
export class RowWork {
  readonly source: RowSource;
  readonly index: number;
  readonly #file: string;
  readonly #line: number;
  /** The row, if it is short enough to be kept until it is settled. */
  readonly #row: InputRow | undefined;
  /** All rows of a common request, this one first. */
  readonly #rows: readonly InputRow[] | undefined;
  /** A row that may become rows, if its numbers have texts to keep. */
  readonly #numbers: WrittenRow | undefined;
  readonly requests: RowRequest[];
  readonly #responses: (InferenceResponse | undefined)[];
  readonly #tries: number[];
  #lastAnswer: string | undefined;
  #next = 0;
  #outstanding = 0;
  #answered = 0;
  failure: SluiceError | undefined;
  /** Deaths of the engine while this row was alone with it. */
  kills = 0;

  /** @param rows the rows of a common request; `row` is the first. */
  constructor(
    source: RowSource,
    row: InputRow,
    requests: RowRequest[],
    rows?: readonly InputRow[],
  ) {
    this.source = source;
    this.index = row.index;
    this.#file = row.file;
    this.#line = row.line;
    this.#row = row.raw.length <= maxHeldRowChars ? row : undefined;
    this.#rows = rows;
    this.#numbers = rows ? undefined : writtenNumbers(row, requests);
    this.requests = requests;
    // Almost every row has one request; a literal is several times cheaper than a filled array.
    const isOne = requests.length === 1;
    this.#responses = isOne ? [undefined] : new Array(requests.length);
    this.#tries = isOne ? [0] : new Array(requests.length).fill(0);
  }

  get rowCount(): number {
    return this.#rows?.length ?? 1;
  }

  get indexes(): readonly number[] {
    return this.#rows?.map(({ index }) => index) ?? [this.index];
  }

  /** The same with their requests: the first of several has all of them. */
  get rowsToSend(): readonly RowToSend[] {
    const { length } = this.requests;
    return this.indexes.map((index, at) => ({ index, planned: at === 0 ? length : 0 }));
  }

  get attempt(): TaskAttempt {
    return this.source.attempt;
  }

  /** Takes over an answer of an earlier attempt; it is not requested again. */
  takeOver(replies: RowReplies): void {
    for (const [at, { response, attempts: tries }] of replies) {
      this.#responses[at] = response;
      this.#tries[at] = tries;
      this.#answered++;
    }
    this.#skipAnswered();
  }

  /** Number of the next request that was not sent yet, or undefined. */
  takeNext(): number | undefined {
    if (!this.hasNext) return undefined;
    const at = this.#next++;
    this.#skipAnswered();
    return at;
  }

  /** True if a request can be sent now: none waits for an answer. */
  get hasNext(): boolean {
    if (this.failure !== undefined) return false;
    const next = this.requests[this.#next];
    if (next === undefined) return false;
    return next.origin.after === undefined || this.#responses[next.origin.after] !== undefined;
  }

  /** True if the next request waited for the answer to request `at`. */
  goesOnFrom(at: number): boolean {
    return this.hasNext && this.requests[this.#next]!.origin.after === at;
  }

  ready(at: number, promptSet: PromptSet): RowRequest {
    return promptSet.ready(this.requests, this.#responses, at);
  }

  #skipAnswered(): void {
    while (this.#responses[this.#next] !== undefined) this.#next++;
  }

  /** Records that a request is in flight, or waits for another try. */
  begin(): void {
    this.#outstanding++;
  }

  countTry(at: number): number {
    return ++this.#tries[at]!;
  }

  /** Tries of a request so far. */
  triesOf(at: number): number {
    return this.#tries[at]!;
  }

  /** The request is no longer in flight, and its only try did not count. */
  withdraw(): void {
    this.#outstanding--;
  }

  /** The try does not count: the engine ended, and not because of the request. */
  forgetTry(at: number): void {
    this.#tries[at]!--;
  }

  /** Takes the answer to a request; journals it if the row has more requests. */
  answered(at: number, response: InferenceResponse): void {
    this.#outstanding--;
    this.#responses[at] = response;
    this.#answered++;
    if (this.isDone || !this.source.isOpen) return;
    this.attempt.notePartlyAnswered(this.index, at, { response, attempts: this.#tries[at]! });
  }

  /** @param lastAnswer text of the rejected answer, if any. */
  failed(error: SluiceError, lastAnswer?: string): void {
    this.#outstanding--;
    if (this.failure === undefined) this.#lastAnswer = lastAnswer;
    this.failure ??= error;
  }

  /** True if no request of the row is in flight and none will follow. */
  get isDone(): boolean {
    if (this.#outstanding > 0) return false;
    return this.failure !== undefined || this.#answered === this.requests.length;
  }

  #records(): RequestRecord[] {
    const [first] = this.#responses;
    if (this.#responses.length === 1) return first ? [requestRecord(first, this.#tries[0]!)] : [];
    return this.#responses.flatMap((response, at) =>
      response ? requestRecord(response, this.#tries[at]!) : [],
    );
  }

  settle(promptSet: PromptSet): void {
    const records = this.#records();
    if (!this.failure) {
      const [response] = this.#responses;
      if (response?.rows && this.#rows) return this.#settleTogether(this.#rows, response, records);
      if (response?.rows) return this.#settleRows(response.rows, records);
      const answer = promptSet.answer(this.requests, this.#responses as InferenceResponse[]);
      const isPlain = typeof answer === "string" && !beyondPlain.test(answer);
      const text = isPlain ? `"${answer}"` : JSON.stringify(answer);
      const facts = isPlain ? ascii : undefined;
      this.attempt.settleAnswered(this.index, records, text, this.#row, facts);
      return;
    }
    const { failure: cause } = this;
    this.failure = locatedError(cause, { file: this.#file, line: this.#line });
    const failure = {
      error: this.failure,
      tries: this.#tries.reduce((most, tries) => Math.max(most, tries), 0),
      requests: records,
      // A row that failed before rendering counts one request for each prompt.
      planned: this.requests.length || promptSet.names.length,
      lastAnswer: this.#lastAnswer,
      partial:
        records.length > 0 ? promptSet.partialAnswer(this.requests, this.#responses) : undefined,
    };
    this.attempt.settleFailed(this.index, failure, this.#row);
    for (const row of this.#rows?.slice(1) ?? []) this.#settleAlone(row, cause, []);
  }

  /** Rows of a common request: the first one without an own failure has all results. */
  #settleTogether(
    rows: readonly InputRow[],
    { rows: results = [], failures }: InferenceResponse,
    records: readonly RequestRecord[],
  ): void {
    const [first, ...others] = rows.filter((_, at) => !failures?.has(at));
    if (first && results.length > 0) {
      const text = `[${results.map((row) => resultText(row, undefined)).join(",")}]`;
      this.attempt.settleAnswered(first.index, records, text, first, {
        results: results.length,
        others,
      });
    } else if (first) {
      this.attempt.settleFiltered(first.index, records, first, others);
    }
    let counted: readonly RequestRecord[] = first ? [] : records;
    for (const [at, error] of failures ?? []) {
      this.#settleAlone(rows[at]!, asSluiceError(error), counted);
      counted = [];
    }
  }

  /** A row of several with a common request, which counts once. */
  #settleAlone(row: InputRow, error: SluiceError, requests: readonly RequestRecord[]): void {
    const tries = this.#tries[0]!;
    const planned = requests.length;
    const located = locatedError(error, row);
    this.failure ??= located;
    this.attempt.settleFailed(row.index, { error: located, tries, requests, planned }, row);
  }

  /** The row has results: rows. Without any, it is filtered. */
  #settleRows(rows: readonly JsonObject[], records: readonly RequestRecord[]): void {
    const { attempt, index } = this;
    if (rows.length === 0) return attempt.settleFiltered(index, records, this.#row);
    const text = `[${rows.map((row) => resultText(row, this.#numbers)).join(",")}]`;
    attempt.settleAnswered(index, records, text, this.#row, { results: rows.length });
  }
}

/**
 * The JSON text of a row that stages made.
 * @param numbers the row that it came from.
 */
export function resultText(row: JsonObject, numbers: WrittenRow | undefined): string {
  const plain = plainJson(row);
  return keptText(numbers ? restoredNumbers(plain, numbers) : plain);
}

/** The row with the texts of its numbers; undefined if the engine needs none. */
export function writtenNumbers(
  { value, raw }: InputRow,
  [request]: readonly RowRequest[],
): WrittenRow | undefined {
  if (value === undefined || request?.row === undefined || request.row === value) return undefined;
  return writtenRow(value, raw);
}

/** The requests of a row, or the reason why there are none. */
export function requestsOf(
  row: InputRow,
  attempt: TaskAttempt,
  promptSet: PromptSet,
): { requests: RowRequest[]; failure?: SluiceError } {
  const fault = row.error ?? attempt.idFault(row);
  if (fault) return { requests: [], failure: fault };
  try {
    const { value, index, dataset, raw } = row;
    const requests = attempt.withCare(index, () => promptSet.requests(value!, index, dataset, raw));
    return { requests: attempt.rowFiles.whole(requests, row.file) };
  } catch (error) {
    return { requests: [], failure: locatedError(asSluiceError(error), row) };
  }
}
