import { SluiceError } from "../../foundation/errors.ts";
import { addUsage } from "../../foundation/inference.ts";
import {
  attemptPaths,
  repeatedTaskPath,
  stagedPath,
  taskAttemptsPrefix,
} from "../directory/layout.ts";
import { createOnce } from "../directory/records.ts";
import type { Task } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import { type AttemptCounts, addErrors, countInvalid, noCounts } from "./commit.ts";
import { type JournalPlace, type JournalWriter, readJournal } from "./journal.ts";
import {
  isCut,
  isSettled,
  type JournalLine,
  outcomeIn,
  type RequestReply,
  requestRecord,
  rowsOfLine,
  type SettledLine,
} from "./journal-line.ts";
import type { OutcomeTable } from "./outcomes.ts";
import { type EarlierEnds, type SuspectedRows, SuspectSearch } from "./suspects.ts";
import { addPaidTokens, addReused } from "./tally.ts";

export type RowReplies = ReadonlyMap<number, RequestReply>;

export interface Replayed {
  /** Rows that they answered. */
  resumed: number;
  counts: AttemptCounts;
  suspected: SuspectedRows;
  /** The replies of rows that are still open. */
  replies: Map<number, RowReplies>;
  /** Other attempts that had a journal. */
  earlierAttempts: number;
}

/**
 * Takes over the answers of earlier attempts at the task, oldest first: of two answers for a row,
 * the first by attempt id counts. Each is copied into this attempt's journal, which then holds
 * everything that the commit needs. Failures are not taken over: their rows are sent again. Rows
 * that were alone with the engine at the end of `limits.maxRowKills` attempts fail here, and in all
 * later attempts, but for programs whose results were staged out.
 */
export async function replayJournals(
  context: RunContext,
  task: Task,
  ownId: string,
  outcomes: OutcomeTable,
  journal: JournalWriter,
  ends: EarlierEnds = {},
): Promise<Replayed> {
  const search = new SuspectSearch(ends);
  const replies = new Map<number, Map<number, RequestReply>>();
  const counts: AttemptCounts = structuredClone(noCounts);
  const { usage } = counts;
  const earlier = await earlierAttempts(context, task, ownId);
  if (earlier.length > 0) await noteRepeated(context, task);
  for (const attempt of earlier) {
    const path = attemptPaths(task.task, context.plan, attempt).journal;
    for await (const { line, text } of readJournal(context.storage, path)) {
      search.read(line, attempt);
      if (isSettled(line) && rowsOfLine(line).every((row) => outcomes.isOpen(row))) {
        takeOver(line, text, outcomes, journal, counts.rows);
        for (const row of rowsOfLine(line)) search.answered(row);
        replies.delete(line.index);
        counts.requests.planned += line.requests.length;
        counts.requests.answered += line.requests.length;
        addReused(counts, line.requests);
        addPaidTokens(usage, line.requests);
      } else if (line.outcome === "partly-answered" && outcomes.isOpen(line.index)) {
        noteReply(replies, line);
      } else if (line.outcome === "invalid") {
        // Not copied: the next attempt reads this journal as well.
        Object.assign(usage, addUsage(usage, line.usage));
        countInvalid(counts, line.usage);
      }
    }
  }
  const resumed = counts.rows.answered + counts.rows.filtered;
  for (const index of search.spare()) journal.append({ index, outcome: "returned" });
  await condemn(context, search, outcomes, journal, counts, replies);
  // The next attempt must not blame them either; recorded only once.
  if (ends.spared !== undefined) await journal.flush();
  const suspected = search.suspected(outcomes);
  return {
    ...{ resumed, counts, suspected, replies },
    earlierAttempts: earlier.length,
  };
}

async function earlierAttempts(context: RunContext, task: Task, ownId: string): Promise<string[]> {
  const prefix = taskAttemptsPrefix(task.task, context.plan);
  const attempts: string[] = [];
  for await (const { path } of context.storage.list(prefix)) {
    const [attempt, file] = path.slice(prefix.length).split("/");
    if (file === "journal.jsonl" && attempt !== ownId) attempts.push(attempt!);
  }
  return attempts;
}

// The later of two attempts at a task finds the other's journal, because each creates its own
// before it looks. So the seal reads the journals of these tasks and need not look for others.
async function noteRepeated({ storage, plan }: RunContext, { task }: Task): Promise<void> {
  await createOnce(storage, repeatedTaskPath(task, plan), { task }, (it) => String(it.task));
}

// As with rows, the first answer counts: every later attempt takes the same one.
function noteReply(
  replies: Map<number, Map<number, RequestReply>>,
  line: Extract<JournalLine, { outcome: "partly-answered" }>,
): void {
  const { index, request, response, attempts } = line;
  const ofRow = replies.get(index) ?? new Map<number, RequestReply>();
  if (!ofRow.has(request)) ofRow.set(request, { response, attempts });
  replies.set(index, ofRow);
}

/** Copies the line into this attempt's journal, and counts its row. */
function takeOver(
  line: SettledLine,
  text: string,
  outcomes: OutcomeTable,
  journal: JournalWriter,
  rows: AttemptCounts["rows"],
): void {
  if (isCut(line.requests)) outcomes.cut.push(line.index);
  const place = line.outcome === "filtered" ? journal.append(line) : copyAnswer(text, journal);
  if (line.outcome === "answered") rows.results += line.results ?? 1;
  for (const row of rowsOfLine(line)) {
    const outcome = outcomeIn(line, row);
    outcomes.settle(row, outcome, place);
    rows[outcome]++;
  }
}

function copyAnswer(text: string, journal: JournalWriter): JournalPlace {
  const mark = '"answer":';
  // Texts that precede it have their quotes escaped, so the first mark is the member.
  const start = text.indexOf(mark) + mark.length;
  return journal.appendAnswer(text.slice(0, start), text.slice(start, -1));
}

async function condemn(
  { storage, plan }: RunContext,
  search: SuspectSearch,
  outcomes: OutcomeTable,
  journal: JournalWriter,
  counts: AttemptCounts,
  replies: Map<number, RowReplies>,
): Promise<void> {
  const isProgram = plan.job.model.engine === "program";
  for (const { index, kills, planned, code } of search.condemned(outcomes)) {
    // Its program ended well and its results count; only the report was lost with the worker.
    if (isProgram && (await storage.stat(stagedPath(index, plan)))) continue;
    const { message } = new SluiceError(code, `row ${index}, with its worker`);
    const answered = replies.get(index)?.values() ?? [];
    const requests = Array.from(answered, (reply) => requestRecord(reply.response, reply.attempts));
    const line: JournalLine = {
      index,
      outcome: "failed",
      error: { code, message },
      attempts: kills,
      planned,
      requests,
    };
    replies.delete(index);
    outcomes.settle(index, "failed", journal.append(line));
    counts.rows.failed++;
    counts.requests.planned += planned;
    counts.requests.answered += requests.length;
    addReused(counts, requests);
    addPaidTokens(counts.usage, requests);
    counts.errors = addErrors(counts.errors, { [code]: { count: 1, message } });
  }
}
