import type { InputRow } from "../../data/row.ts";
import type { ErrorRecord, SluiceError } from "../../foundation/errors.ts";
import { parseMessage } from "../../foundation/exact-json.ts";
import { indexesIn, indexSetOf } from "../../foundation/index-set.ts";
import type {
  FinishReason,
  InferenceResponse,
  SpanOffsets,
  TokenLogprob,
  Usage,
} from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";

export interface RequestRecord {
  promptTokens: number;
  cachedTokens?: number;
  tokens: number[];
  seconds: number;
  finishReason: string;
  attempts: number;
  /** The answer came from a cache or an equal request, and cost nothing. */
  reused?: boolean;
  /** Tokens of each answer, if they were asked for. */
  logprobs?: (readonly TokenLogprob[])[];
  /** Where the words of each answer's copy fields are in their sources. */
  spans?: Readonly<Record<string, SpanOffsets>>[];
}

/** An accepted response, and its number of tries. */
export interface RequestReply {
  response: InferenceResponse;
  attempts: number;
}

/** A failed row, as the executor knows it. */
export interface RowFailure {
  error: SluiceError;
  tries: number;
  requests: readonly RequestRecord[];
  planned: number;
  partial?: Json;
  /** Text of the rejected answer. */
  lastAnswer?: string;
}

/** One line of a journal. The row itself is never in it: it is read again from the input. */
export type JournalLine =
  | {
      index: number;
      outcome: "answered";
      /** The other rows of its request, as an index set: all results are in this row. */
      others?: string;
      /** The number of rows that the row became: `answer` is the list of them. */
      results?: number;
      requests: RequestRecord[];
      answer: Json;
    }
  /** A stage left it out of the results. */
  | { index: number; outcome: "filtered"; others?: string; requests: RequestRecord[] }
  /** One request of a row with several, kept because the row has more requests. */
  | ({ index: number; outcome: "partly-answered"; request: number } & RequestReply)
  /** An answer that was paid for and rejected, because its form was wrong. */
  | { index: number; outcome: "invalid"; usage: Usage }
  | {
      index: number;
      outcome: "failed";
      /** Journals of earlier versions lack `field` and `server`. */
      error: Omit<ErrorRecord, "hint">;
      attempts: number;
      /** Requests of the row; journals of earlier versions lack it. */
      planned?: number;
      requests: RequestRecord[];
      partial?: Json;
      /** Text of the rejected answer. */
      lastAnswer?: string;
    }
  /**
   * Sent as a suspect of ending its engine; `together` is how many were sent at once, `planned` the
   * row's requests if not one.
   */
  | { index: number; outcome: "asked"; together: number; planned?: number }
  /** It came back without an outcome and will be sent again: it did not end its engine. */
  | { index: number; outcome: "returned" };

/** A final line of a row: the row is not sent again. */
export type SettledLine = Extract<JournalLine, { outcome: "answered" | "filtered" }>;

/** True if the line settles its row for this and later attempts. */
export function isSettled(line: JournalLine): line is SettledLine {
  return line.outcome === "answered" || line.outcome === "filtered";
}

/** All rows that a line settles. One line holds them all, so that a kill cannot separate them. */
export function rowsOfLine({ index, others }: Pick<SettledLine, "index" | "others">): number[] {
  return others === undefined ? [index] : [index, ...indexesIn(others)];
}

/** The outcome of one of these rows: the results of all are those of the first. */
export function outcomeIn({ index, outcome }: SettledLine, row: number): SettledLine["outcome"] {
  return row === index ? outcome : "filtered";
}

/** The member with the other rows of a row's request; none if it was alone. */
export function othersOf(others: readonly Indexed[]): { others?: string } {
  return others.length === 0 ? {} : { others: indexSetOf(others.map(({ index }) => index)) };
}

type Indexed = Pick<InputRow, "index">;

export function requestRecord(response: InferenceResponse, attempts: number): RequestRecord {
  const { usage, answers, seconds } = response;
  const record: RequestRecord = {
    promptTokens: usage.promptTokens,
    tokens: answers.length === 1 ? [answers[0]!.tokens] : answers.map((answer) => answer.tokens),
    seconds: Math.round(seconds * 1e6) / 1e6,
    finishReason: worstEnd(answers.map(({ finishReason }) => finishReason)),
    attempts,
  };
  if (answers[0]?.logprobs !== undefined) {
    record.logprobs = answers.map(({ logprobs = [] }) => logprobs);
  }
  if (answers[0]?.spans !== undefined) record.spans = answers.map(({ spans = {} }) => spans);
  if (usage.cachedTokens > 0) record.cachedTokens = usage.cachedTokens;
  if (response.reused === true) record.reused = true;
  return record;
}

/** A cut among several answers counts, whatever else ended one of them. */
function worstEnd(ends: readonly FinishReason[]): FinishReason {
  if (ends.includes("length")) return "length";
  return ends.find((end) => end !== "stop") ?? "stop";
}

/** True if an answer reached its token limit. */
export function isCut(requests: readonly RequestRecord[]): boolean {
  for (const request of requests) if (request.finishReason === "length") return true;
  return false;
}

/** Text of a line up to its answer, all ASCII; `"answer":` is always its last member. */
export function answeredHead(
  index: number,
  requests: readonly RequestRecord[],
  results?: number,
  others: readonly Indexed[] = [],
): string {
  if (results !== undefined) {
    const line = { index, outcome: "answered", ...othersOf(others), results };
    return `${JSON.stringify(line).slice(0, -1)},"requests":${asciiJson(requests)},"answer":`;
  }
  const only = requests.length === 1 ? plainRecord(requests[0]!) : undefined;
  if (only === undefined) {
    return `{"index":${index},"outcome":"answered","requests":${asciiJson(requests)},"answer":`;
  }
  // The form of almost every row: JSON.stringify takes three times as long.
  const { promptTokens, tokens, seconds, finishReason, attempts } = only;
  const start = `{"index":${index},"outcome":"answered","requests":[{"promptTokens":`;
  const isUsual = finishReason === "stop" && attempts === 1;
  const end = isUsual
    ? usualEnd
    : `,"finishReason":"${finishReason}","attempts":${attempts}}],"answer":`;
  return `${start}${promptTokens},"tokens":[${tokens[0]}],"seconds":${seconds}${end}`;
}

// Each piece of a text costs about as much as all its characters.
const usualEnd = ',"finishReason":"stop","attempts":1}],"answer":';

/** The record if it has one answer and no rare member. */
function plainRecord(record: RequestRecord): RequestRecord | undefined {
  const { tokens, cachedTokens, logprobs, spans, reused } = record;
  if (tokens.length !== 1 || cachedTokens !== undefined || reused !== undefined) return undefined;
  return logprobs === undefined && spans === undefined ? record : undefined;
}

// The journal counts a head's bytes by its characters.
function asciiJson(requests: readonly RequestRecord[]): string {
  return JSON.stringify(requests).replaceAll(/[\u0080-\uffff]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/**
 * Reads one line of a journal.
 *
 * @returns undefined for a torn line: a line counts only if it ended in a newline and parses.
 */
export function parseJournalLine(text: string, endedInNewline: boolean): JournalLine | undefined {
  if (!endedInNewline) return undefined;
  try {
    const line = parseMessage(text) as JournalLine;
    return Number.isSafeInteger(line?.index) ? line : undefined;
  } catch {
    return undefined;
  }
}
