import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { TaskAttempt } from "../attempt/attempt.ts";
import type { RowWork } from "./row-work.ts";
import type { Try } from "./tries.ts";

/**
 * One try of a row's request: `at` is the request's number in the row. After a wrong answer,
 * `request` is the one that `tryAfter` made.
 */
export interface RowTry extends Try {
  work: RowWork;
  at: number;
}

/** All requests of a row that can be sent now. */
export function takeAll(work: RowWork, promptSet: PromptSet): RowTry[] {
  const rowTries: RowTry[] = [];
  for (let at = work.takeNext(); at !== undefined; at = work.takeNext()) {
    rowTries.push({ work, at, request: work.ready(at, promptSet) });
  }
  return rowTries;
}

/**
 * Finds the row that ends or stalls its engine, without harm to its neighbours. Rows in flight at
 * the engine's death are sent again in groups, with nothing beside them. A group that dies is
 * halved. A row that ends the engine `limits.maxRowKills` times alone is given up.
 *
 * For rows that end the worker itself: `RowReach` announces them, the dispatcher's `noteDeath`
 * hands them to the next attempt, and `attempt/suspects.ts` halves them there. See ARCHITECTURE,
 * "Four searches for what kills an engine".
 */
export class Isolation {
  #groups: RowTry[][] = [];
  #fallen: RowTry[] = [];
  #lastDeath: SluiceError | undefined;
  /** Rows of the present group that did not come back yet. */
  #unresolved = new Set<RowTry>();
  /** Attempts whose journals may not have the outcomes of the present group yet. */
  #unwritten = new Set<TaskAttempt>();

  /** True while only suspected rows may be sent. */
  get isActive(): boolean {
    return (
      this.isBusy || this.#unwritten.size > 0 || this.#groups.length > 0 || this.#fallen.length > 0
    );
  }

  /** True while a group is in flight. */
  get isBusy(): boolean {
    return this.#unresolved.size > 0;
  }

  /** Attempts to flush before the next request, which may end the process. */
  get unwritten(): ReadonlySet<TaskAttempt> {
    return this.#unwritten;
  }

  /** Records that the outcomes of the last group are on file. */
  written(): void {
    this.#unwritten.clear();
  }

  /** Suspected rows to send, `together` at once. */
  suspect(rows: readonly RowTry[][], together: number): void {
    for (let at = 0; at < rows.length; at += together) {
      this.#groups.push(rows.slice(at, at + together).flat());
    }
  }

  /** Records a request in flight at the engine's death by `error`. */
  fell(rowTry: RowTry, error: SluiceError): void {
    this.#lastDeath = error;
    this.#fallen.push(rowTry);
    this.#unresolved.delete(rowTry);
  }

  /**
   * Records that a request came back in any other way.
   * @returns true if that clears its row in the present group of suspects.
   */
  resolved(rowTry: RowTry): boolean {
    if (!this.#unresolved.delete(rowTry)) return false;
    return [...this.#unresolved, ...this.#fallen].every(({ work }) => work !== rowTry.work);
  }

  /**
   * When the engine has no request: the next group to send, if any. Passes rows that are given up
   * to `giveUp`.
   */
  nextGroup(giveUp: (rowTries: RowTry[], error: SluiceError) => void): RowTry[] | undefined {
    this.#regroup(giveUp);
    const group = this.#groups.shift();
    this.#unresolved = new Set(group);
    this.#unwritten = new Set(group?.map(({ work }) => work.attempt));
    return group;
  }

  /** Forgets the rows of an attempt that was given up; the rest of its group continues. */
  forget(attempt: TaskAttempt): void {
    const others = (rowTries: RowTry[]) => rowTries.filter(({ work }) => work.attempt !== attempt);
    this.#groups = this.#groups.map(others).filter((group) => group.length > 0);
    this.#fallen = others(this.#fallen);
    this.#unresolved = new Set(others([...this.#unresolved]));
  }

  /** Forgets everything: the run is stopping. */
  clear(): void {
    this.#groups = [];
    this.#fallen = [];
    this.#unresolved.clear();
    this.#unwritten.clear();
  }

  #regroup(giveUp: (rowTries: RowTry[], error: SluiceError) => void): void {
    const fallen = this.#fallen;
    if (fallen.length === 0) return;
    this.#fallen = [];
    const works = [...new Set(fallen.map(({ work }) => work))];
    const [only] = works;
    if (works.length > 1 || !only) {
      const half = new Set(works.slice(0, Math.ceil(works.length / 2)));
      this.#groups.unshift(
        fallen.filter(({ work }) => half.has(work)),
        fallen.filter(({ work }) => !half.has(work)),
      );
      return;
    }
    // With one row in flight from the start, the first death is already one alone.
    only.kills++;
    if (only.kills < limits.maxRowKills) this.#groups.unshift(fallen);
    else giveUp(fallen, endsEngine(only.index, this.#lastDeath));
  }
}

function endsEngine(row: number, cause: SluiceError | undefined): SluiceError {
  const last = cause === undefined ? "" : `, at last: ${cause.message}`;
  const code = cause?.code === "ENGINE_STALLED" ? "ROW_STALLS_WORKER" : "ROW_KILLS_ENGINE";
  return new SluiceError(code, `row ${row}${last}`, { cause });
}
