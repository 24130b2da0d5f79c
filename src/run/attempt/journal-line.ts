import type { ErrorCode } from "../../foundation/error-table.ts";
import type { SluiceError } from "../../foundation/errors.ts";
import { parseMessage } from "../../foundation/exact-json.ts";
import { eachIndex, formatIndexSet, parseIndexSet, rangesOf } from "../../foundation/index-set.ts";
import type {
  InferenceResponse,
  SpanOffsets,
  TokenLogprob,
  Usage,
} from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";

/** What a journal keeps of one request. */
export interface RequestRecord {
  promptTokens: number;
  cachedTokens?: number;
  /** Tokens of each answer. */
  tokens: number[];
  seconds: number;
  finishReason: string;
  /** Tries it took. */
  attempts: number;
  /** It was answered before, and nothing was paid for it. */
  reused?: boolean;
  /** Tokens of each answer, where they were asked for. */
  logprobs?: (readonly TokenLogprob[])[];
  /** Where the words of each answer's copy fields stand in their sources. */
  spans?: Readonly<Record<string, SpanOffsets>>[];
}

/** An accepted response, and the tries it took. */
export interface RequestReply {
  response: InferenceResponse;
  attempts: number;
}

/** A row that could not be answered, as the executor knows it. */
export interface RowFailure {
  error: SluiceError;
  attempts: number;
  requests: readonly RequestRecord[];
  planned: number;
  partial?: Json;
  /** Text of the answer that was not taken. */
  lastAnswer?: string;
}

/** One line of a journal. The row itself is never in it: it is read again from the input. */
export type JournalLine =
  | {
      index: number;
      outcome: "answered";
      /** Rows that were asked as one with it, as an index set: all results stand with this one. */
      others?: string;
      /** How many rows the row became: `answer` is the list of them. */
      results?: number;
      requests: RequestRecord[];
      answer: Json;
    }
  /** A stage left it out of the results. */
  | { index: number; outcome: "filtered"; others?: string; requests: RequestRecord[] }
  /** One request of a row with several, kept because the row has more to ask. */
  | ({ index: number; outcome: "partly-answered"; request: number } & RequestReply)
  /** An answer that was paid for and not taken, because its form was wrong. */
  | { index: number; outcome: "invalid"; usage: Usage }
  | {
      index: number;
      outcome: "failed";
      error: { code: ErrorCode; message: string };
      attempts: number;
      /** Requests of the row; journals of earlier versions do not say. */
      planned?: number;
      /** Those that were answered. */
      requests: RequestRecord[];
      partial?: Json;
      /** Text of the answer that was not taken. */
      lastAnswer?: string;
    }
  /**
   * Asked while suspected of ending its engine; `together` is how many were asked at once,
   * `planned` how many requests the row has, where that is not one.
   */
  | { index: number; outcome: "asked"; together: number; planned?: number }
  /** It came back without an outcome and is to be asked again: it did not end its engine. */
  | { index: number; outcome: "returned" };

/** A row's line that stays: it is not asked again. */
export type SettledLine = Extract<JournalLine, { outcome: "answered" | "filtered" }>;

/** True where the line settles its row for this attempt and those to come. */
export function isSettled(line: JournalLine): line is SettledLine {
  return line.outcome === "answered" || line.outcome === "filtered";
}

/** All rows that a line settles: it is one line so that no kill can part them. */
export function rowsOfLine({ index, others }: Pick<SettledLine, "index" | "others">): number[] {
  return others === undefined ? [index] : [index, ...eachIndex(parseIndexSet(others))];
}

/** The member that names the rows that were asked as one with a row; none where it was alone. */
export function othersOf(others: readonly number[]): { others?: string } {
  return others.length === 0 ? {} : { others: formatIndexSet(rangesOf(others)) };
}

/** The record of one answered request. */
export function requestRecord(response: InferenceResponse, attempts: number): RequestRecord {
  const { usage, answers, seconds } = response;
  const record: RequestRecord = {
    promptTokens: usage.promptTokens,
    tokens: answers.length === 1 ? [answers[0]!.tokens] : answers.map((answer) => answer.tokens),
    seconds: Math.round(seconds * 1e6) / 1e6,
    // The reason of the first answer that did not end by itself.
    finishReason: answers.find(({ finishReason: end }) => end !== "stop")?.finishReason ?? "stop",
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

/** True where an answer ended at its limit of tokens. */
export function isCut(requests: readonly RequestRecord[]): boolean {
  for (const request of requests) if (request.finishReason === "length") return true;
  return false;
}

/** Text of a line up to its answer, all ASCII; `"answer":` is always its last member. */
export function answeredHead(
  index: number,
  requests: readonly RequestRecord[],
  results?: number,
  others: readonly number[] = [],
): string {
  if (results !== undefined) {
    const line = { index, outcome: "answered", ...othersOf(others), results };
    return `${JSON.stringify(line).slice(0, -1)},"requests":${asciiJson(requests)},"answer":`;
  }
  const only = requests.length === 1 ? plainRecord(requests[0]!) : undefined;
  if (only === undefined) {
    return `{"index":${index},"outcome":"answered","requests":${asciiJson(requests)},"answer":`;
  }
  // What almost every row has: JSON.stringify costs three times as much, and each part its share.
  const { promptTokens, tokens, seconds, finishReason, attempts } = only;
  const start = `{"index":${index},"outcome":"answered","requests":[{"promptTokens":`;
  const end = endsOfPlain[finishReason] ?? `,"finishReason":"${finishReason}","attempts":`;
  return `${start}${promptTokens},"tokens":[${tokens[0]}],"seconds":${seconds}${end}${attempts}}],"answer":`;
}

const endsOfPlain: Readonly<Record<string, string>> = {
  stop: ',"finishReason":"stop","attempts":',
  length: ',"finishReason":"length","attempts":',
};

/** The record where it has one answer and nothing that is seldom there. */
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
 * @returns undefined when the line was torn: it counts only if it ended in a newline and parses.
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
