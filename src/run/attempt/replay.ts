import { SluiceError } from "../../foundation/errors.ts";
import { noUsage, type Usage } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import { taskAttemptsPrefix } from "../layout.ts";
import type { Task } from "../plan.ts";
import type { RunContext } from "../run-context.ts";
import { type AttemptCounts, addErrors, noCounts } from "./commit.ts";
import { type JournalWriter, readJournal } from "./journal.ts";
import { isCut, type JournalLine, type RequestRecord, type RequestReply } from "./journal-line.ts";
import type { OutcomeTable } from "./outcomes.ts";

/** Rows to be asked with care because one of them may end the engine. */
export interface Suspicion {
  /** How many of the first open rows. */
  rows: number;
  /** How many of them at once. */
  together: number;
}

/** What was answered of a row that has more to ask, by number of the request. */
export type RowReplies = ReadonlyMap<number, RequestReply>;

/** What earlier attempts left. */
export interface Replayed {
  /** Rows that they answered. */
  resumed: number;
  counts: AttemptCounts;
  suspicion?: Suspicion;
  /** Of rows that are still open. */
  replies: Map<number, RowReplies>;
}

interface Asked {
  attempt: string;
  together: number;
  /** Attempts that ended while it was asked alone. */
  kills: number;
}

/**
 * Takes over the answers of earlier attempts at the task, oldest first: of two answers for a row
 * the first by attempt id counts. Each is copied into this attempt's journal, which thereby holds
 * all that the commit needs. Failures are not taken over: they are asked again. Rows that stood
 * alone with the engine at the end of `limits.maxRowKills` attempts fail here, and do so from then
 * on.
 */
export async function replayJournals(
  context: RunContext,
  task: Task,
  ownId: string,
  outcomes: OutcomeTable,
  journal: JournalWriter,
): Promise<Replayed> {
  const asked = new Map<number, Asked>();
  const replies = new Map<number, Map<number, RequestReply>>();
  const counts: AttemptCounts = structuredClone(noCounts);
  const usage: Usage = { ...noUsage };
  for (const path of await earlierJournals(context, task, ownId)) {
    for await (const { line, text } of readJournal(context.storage, path)) {
      if (line.outcome === "asked") {
        noteAsked(asked, line, path);
      } else if (line.outcome === "returned") {
        noteReturned(asked, line.index);
      } else if (line.outcome === "answered" && outcomes.isOpen(line.index)) {
        copyAnswer(line.index, text, outcomes, journal);
        asked.delete(line.index);
        replies.delete(line.index);
        if (isCut(line.requests)) outcomes.cut.push(line.index);
        counts.rows.answered++;
        counts.rows.results++;
        counts.requests.planned += line.requests.length;
        counts.requests.answered += line.requests.length;
        addRequests(usage, line.requests);
      } else if (line.outcome === "failed") {
        noteFailed(asked, line, path);
      } else if (line.outcome === "partly-answered" && outcomes.isOpen(line.index)) {
        noteReply(replies, line);
      }
    }
  }
  const resumed = counts.rows.answered;
  condemn(asked, outcomes, journal, counts);
  const suspicion = suspicionOf(asked, outcomes);
  return { resumed, counts: { ...counts, usage }, suspicion, replies };
}

async function earlierJournals(context: RunContext, task: Task, ownId: string): Promise<string[]> {
  const prefix = taskAttemptsPrefix(task.task, context.plan);
  const paths: string[] = [];
  for await (const { path } of context.storage.list(prefix)) {
    if (path.endsWith("/journal.jsonl") && !path.startsWith(`${prefix}${ownId}/`)) paths.push(path);
  }
  return paths.sort();
}

// As with rows, the first answer counts: whichever attempt comes next takes the same one.
function noteReply(
  replies: Map<number, Map<number, RequestReply>>,
  line: Extract<JournalLine, { outcome: "partly-answered" }>,
): void {
  const { index, request, response, attempts } = line;
  const ofRow = replies.get(index) ?? new Map<number, RequestReply>();
  if (!ofRow.has(request)) ofRow.set(request, { response, attempts });
  replies.set(index, ofRow);
}

function noteAsked(
  asked: Map<number, Asked>,
  line: Extract<JournalLine, { outcome: "asked" }>,
  attempt: string,
): void {
  const before = asked.get(line.index);
  const kills = (before?.kills ?? 0) + (line.together === 1 ? 1 : 0);
  asked.set(line.index, { attempt, together: line.together, kills });
}

// A row that ends its engine stays given up: asked again, it would hide what its neighbours do.
function noteFailed(
  asked: Map<number, Asked>,
  line: Extract<JournalLine, { outcome: "failed" }>,
  attempt: string,
): void {
  if (line.error.code === "ROW_KILLS_ENGINE") {
    asked.set(line.index, { attempt, together: 1, kills: limits.maxRowKills });
  } else {
    asked.delete(line.index);
  }
}

function noteReturned(asked: Map<number, Asked>, index: number): void {
  const before = asked.get(index);
  if (!before) return;
  const kills = before.kills - (before.together === 1 ? 1 : 0);
  if (kills > 0) asked.set(index, { ...before, kills });
  else asked.delete(index);
}

function copyAnswer(
  index: number,
  text: string,
  outcomes: OutcomeTable,
  journal: JournalWriter,
): void {
  const mark = '"answer":';
  // Before it stand only numbers and words of ours, so the first mark is the member.
  const start = text.indexOf(mark) + mark.length;
  outcomes.settle(
    index,
    "answered",
    journal.appendAnswer(text.slice(0, start), text.slice(start, -1)),
  );
}

function condemn(
  asked: Map<number, Asked>,
  outcomes: OutcomeTable,
  journal: JournalWriter,
  counts: AttemptCounts,
): void {
  for (const [index, { kills }] of asked) {
    if (kills < limits.maxRowKills || !outcomes.isOpen(index)) continue;
    const error = new SluiceError("ROW_KILLS_ENGINE", `row ${index}`);
    const { code, message } = error;
    const line: JournalLine = {
      index,
      outcome: "failed",
      error: { code, message },
      attempts: kills,
      requests: [],
    };
    outcomes.settle(index, "failed", journal.append(line));
    counts.rows.failed++;
    counts.requests.planned++;
    counts.errors = addErrors(counts.errors, { [code]: { count: 1, message } });
    asked.delete(index);
  }
}

// The rows that the last attempt asked with care and that nobody answered since.
function suspicionOf(asked: Map<number, Asked>, outcomes: OutcomeTable): Suspicion | undefined {
  const lastAttempt = [...asked.values()]
    .map(({ attempt }) => attempt)
    .sort()
    .at(-1);
  const group = [...asked.values()].filter(({ attempt }) => attempt === lastAttempt);
  if (group.length === 0) return undefined;
  const together = Math.max(1, Math.floor(Math.min(...group.map((it) => it.together)) / 2));
  // Open rows before them, such as dead letters that are asked again, come first all the same.
  const last = Math.max(...asked.keys());
  let rows = 0;
  for (let index = outcomes.firstRow; index <= last; index++) if (outcomes.isOpen(index)) rows++;
  return { rows, together };
}

/** Adds the tokens of journaled requests to `usage`. */
export function addRequests(usage: Usage, requests: readonly RequestRecord[]): void {
  for (const request of requests) {
    usage.promptTokens += request.promptTokens;
    usage.cachedTokens += request.cachedTokens ?? 0;
    for (const tokens of request.tokens) usage.completionTokens += tokens;
  }
}
