import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { TaskAttempt } from "../attempt/attempt.ts";
import type { RowJob } from "./row-job.ts";
import type { Try } from "./tries.ts";

/**
 * One request of one row: `at` is its number among the row's requests. After an answer of the wrong
 * form, `request` is what `tryAfter` made of it.
 */
export interface Asking extends Try {
  job: RowJob;
  at: number;
}

/** All requests of a row that can be asked now, taken from it. */
export function askAll(job: RowJob, promptSet: PromptSet): Asking[] {
  const askings: Asking[] = [];
  for (let at = job.takeNext(); at !== undefined; at = job.takeNext()) {
    askings.push({ job, at, request: job.ready(at, promptSet) });
  }
  return askings;
}

/** Deaths that lead somewhere: each halves the suspects, and then one is asked alone. */
export function leadingDeaths(suspects: number): number {
  return Math.ceil(Math.log2(suspects + 1)) + limits.maxRowKills;
}

/**
 * Finds the row that ends or stalls its engine without harming its neighbours. Rows that were with
 * an engine when it died are asked again in groups, nothing else beside them; a group that dies is
 * halved; a row that ends the engine `limits.maxRowKills` times alone is given up.
 */
export class Isolation {
  #groups: Asking[][] = [];
  #fallen: Asking[] = [];
  #lastDeath: SluiceError | undefined;
  /** Those of the present group that did not come back yet. */
  #unresolved = new Set<Asking>();
  /** Attempts whose journals may not have the outcomes of the present group yet. */
  #unwritten = new Set<TaskAttempt>();

  /** True while only suspected rows may be asked. */
  get isActive(): boolean {
    return (
      this.isBusy || this.#unwritten.size > 0 || this.#groups.length > 0 || this.#fallen.length > 0
    );
  }

  /** True while a group is with the engine. */
  get isBusy(): boolean {
    return this.#unresolved.size > 0;
  }

  /** Attempts to flush before anything else is asked: the next row may end the process. */
  get unwritten(): ReadonlySet<TaskAttempt> {
    return this.#unwritten;
  }

  /** Notes that the outcomes of the last group are on file. */
  written(): void {
    this.#unwritten.clear();
  }

  /** Rows to be asked with care, `together` at once. */
  suspect(rows: readonly Asking[][], together: number): void {
    for (let at = 0; at < rows.length; at += together) {
      this.#groups.push(rows.slice(at, at + together).flat());
    }
  }

  /** Notes a request that was with the engine when it died, by `error`. */
  fell(asking: Asking, error: SluiceError): void {
    this.#lastDeath = error;
    this.#fallen.push(asking);
    this.#unresolved.delete(asking);
  }

  /**
   * Notes that a request came back in any other way.
   *
   * @returns true when that clears its row of the present group of suspects.
   */
  resolved(asking: Asking): boolean {
    if (!this.#unresolved.delete(asking)) return false;
    return [...this.#unresolved, ...this.#fallen].every(({ job }) => job !== asking.job);
  }

  /**
   * Once nothing is with the engine: the group to ask next, if there is one. Rows that are given up
   * are handed to `giveUp`.
   */
  nextGroup(giveUp: (askings: Asking[], error: SluiceError) => void): Asking[] | undefined {
    this.#regroup(giveUp);
    const group = this.#groups.shift();
    this.#unresolved = new Set(group);
    this.#unwritten = new Set(group?.map(({ job }) => job.attempt));
    return group;
  }

  /** Forgets the rows of an attempt that was given up; the rest of its group goes on. */
  forget(attempt: TaskAttempt): void {
    const others = (askings: Asking[]) => askings.filter(({ job }) => job.attempt !== attempt);
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

  #regroup(giveUp: (askings: Asking[], error: SluiceError) => void): void {
    const fallen = this.#fallen;
    if (fallen.length === 0) return;
    this.#fallen = [];
    const jobs = [...new Set(fallen.map(({ job }) => job))];
    const [only] = jobs;
    if (jobs.length > 1 || !only) {
      const half = new Set(jobs.slice(0, Math.ceil(jobs.length / 2)));
      this.#groups.unshift(
        fallen.filter(({ job }) => half.has(job)),
        fallen.filter(({ job }) => !half.has(job)),
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
