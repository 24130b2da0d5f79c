import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { noUsage, type Usage } from "../../foundation/inference.ts";
import { type JournalEntry, readJournal } from "../attempt/journal.ts";
import {
  isCut,
  isSettled,
  type JournalLine,
  outcomeIn,
  type RequestRecord,
  requestRecord,
  rowsOfLine,
  type SettledLine,
} from "../attempt/journal-line.ts";
import { addPaidTokens } from "../attempt/tally.ts";
import { attemptPaths, generationAttemptsPrefix, taskAttemptsPrefix } from "../directory/layout.ts";
import type { RunContext } from "../run-context.ts";
import { addPaidAnswers, noPaidAnswers, type PaidAnswers } from "./costs.ts";

export type JournaledRun = Pick<RunContext, "storage" | "plan">;

/**
 * Attempts of a generation with a journal, by task, each list by age.
 *
 * @param task default: all tasks.
 */
export async function journaledAttempts(
  run: JournaledRun,
  task?: number,
): Promise<Map<number, string[]>> {
  const attempts = new Map<number, string[]>();
  const all = generationAttemptsPrefix(run.plan);
  const prefix = task === undefined ? all : taskAttemptsPrefix(task, run.plan);
  for await (const { path } of run.storage.list(prefix)) {
    const [task, attempt, file] = path.slice(all.length).split("/");
    if (file !== "journal.jsonl") continue;
    const known = attempts.get(Number(task)) ?? [];
    attempts.set(Number(task), [...known, attempt!]);
  }
  return attempts;
}

/** Reads what attempts at a task journaled; answers that one took over from another come once. */
export async function* journaledLines(
  { storage, plan }: JournaledRun,
  task: number,
  attempts: readonly string[],
): AsyncGenerator<{ attempt: string; line: JournalLine; isAgain: boolean }> {
  const known = new KnownAnswers(attempts);
  for (const attempt of attempts) {
    const { journal } = attemptPaths(task, plan, attempt);
    for await (const entry of readStanding(storage, journal)) {
      const fresh = known.fresh(entry);
      if (fresh) yield { attempt, ...fresh };
    }
  }
}

/** The answers in the journals of some attempts at a task: tells who took over which. */
export class KnownAnswers {
  readonly #digests = new Map<number, string>();
  readonly #areSeveral: boolean;

  /** @param attempts all whose lines it is shown. */
  constructor(attempts: readonly string[]) {
    this.#areSeveral = attempts.length > 1;
  }

  /**
   * @returns the line, and whether its row has another answer; undefined if it was taken over from
   *   an attempt whose line came before.
   */
  fresh({ line, text }: JournalEntry): { line: JournalLine; isAgain: boolean } | undefined {
    if (!isSettled(line) || !this.#areSeveral) return { line, isAgain: false };
    const known = this.#digests.get(line.index);
    const digest = sha256Hex(text);
    // An answer is taken over unchanged; only times distinguish two answers.
    if (known === digest) return undefined;
    this.#digests.set(line.index, digest);
    return { line, isAgain: known !== undefined };
  }
}

async function* readStanding(storage: Storage, path: string): AsyncGenerator<JournalEntry> {
  try {
    yield* readJournal(storage, path);
  } catch (error) {
    // A coordinator that sealed the run meanwhile has removed it.
    if (asSluiceError(error).code !== "NOT_FOUND") throw error;
  }
}

/** The progress of a task without a commit: all that an attempt would take over. */
export interface OpenTaskCounts {
  /** Answers and their cost, including those that no row will keep. */
  paid: PaidAnswers;
  answered: number;
  filtered: number;
  /** Rows of either kind with an answer that reached its token limit. */
  cut: number;
  /** Requests with an answer: of these rows, and of rows with more requests. */
  responses: number;
}

export async function openTaskCounts(
  run: JournaledRun,
  task: number,
  attempts: readonly string[],
): Promise<OpenTaskCounts> {
  const tally = new OpenTaskTally();
  for await (const { line, isAgain } of journaledLines(run, task, attempts)) {
    tally.add(line, isAgain);
  }
  return tally.counts();
}

/** Adds up the lines of all attempts at a task. */
export class OpenTaskTally {
  readonly #settled = new Set<number>();
  /** Answers to some requests of open rows. */
  readonly #partly = new Map<number, Map<number, RequestRecord>>();
  readonly #counts: OpenTaskCounts = {
    paid: noPaidAnswers,
    answered: 0,
    filtered: 0,
    cut: 0,
    responses: 0,
  };

  /** @param isAgain its row has another answer. */
  add(line: JournalLine, isAgain: boolean): void {
    const { index } = line;
    if (isSettled(line)) this.#settle(line, isAgain);
    else if (line.outcome === "invalid") this.#pay({ answers: 1, ...line.usage });
    else if (line.outcome === "partly-answered") {
      const ofRow = this.#partly.get(index) ?? new Map<number, RequestRecord>();
      const record = requestRecord(line.response, line.attempts);
      this.#partly.set(index, ofRow.set(line.request, record));
    }
  }

  counts(): OpenTaskCounts {
    const counts = { ...this.#counts };
    for (const [index, ofRow] of this.#partly) {
      counts.paid = addPaidAnswers(counts.paid, paidFor([...ofRow.values()]));
      if (!this.#settled.has(index)) counts.responses += ofRow.size;
    }
    return counts;
  }

  #settle(line: SettledLine, isAgain: boolean): void {
    const counts = this.#counts;
    this.#pay(paidFor(line.requests));
    this.#partly.delete(line.index);
    for (const row of rowsOfLine(line)) {
      if (!this.#settled.has(row)) counts[outcomeIn(line, row)]++;
      this.#settled.add(row);
    }
    if (isAgain) return;
    counts.responses += line.requests.length;
    if (isCut(line.requests)) counts.cut++;
  }

  #pay(answers: PaidAnswers): void {
    this.#counts.paid = addPaidAnswers(this.#counts.paid, answers);
  }
}

/** The answers so far of a task without a commit, and their cost. */
export async function journaledAnswers(
  run: JournaledRun,
  task: number,
  attempts: readonly string[],
): Promise<PaidAnswers> {
  return (await openTaskCounts(run, task, attempts)).paid;
}

/** Cost of the requests that were not answered by earlier answers. */
function paidFor(requests: readonly RequestRecord[]): PaidAnswers {
  const usage: Usage = { ...noUsage };
  addPaidTokens(usage, requests);
  return { answers: requests.filter(({ reused }) => !reused).length, ...usage };
}

/**
 * Answers of a committed task from attempts other than the committed one, for rows that it answered
 * itself. Answers that never reached a journal are unknown.
 */
export async function lostAnswers(
  run: JournaledRun,
  task: number,
  committed: string,
  attempts: readonly string[],
): Promise<PaidAnswers> {
  const others = attempts.filter((attempt) => attempt !== committed);
  if (others.length === 0) return noPaidAnswers;
  let lost = noPaidAnswers;
  for await (const found of journaledLines(run, task, [committed, ...others])) {
    const { attempt, line, isAgain } = found;
    if (isSettled(line) && isAgain) {
      lost = addPaidAnswers(lost, paidFor(line.requests));
    } else if (line.outcome === "invalid" && attempt > committed) {
      // Answers of earlier attempts are in the commit.
      lost = addPaidAnswers(lost, { answers: 1, ...line.usage });
    }
  }
  return lost;
}
