import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import type { RowJob } from "./row-job.ts";

/** One request of one row: `at` is its number among the row's requests. */
export interface Asking {
  job: RowJob;
  at: number;
  /** What is asked; after an answer of the wrong form, the request with the problem shown. */
  request: InferenceRequest;
}

/**
 * Finds the row that ends its engine without harming its neighbours. Rows that were with an engine
 * when it died are asked again in groups, nothing else beside them; a group that dies is halved; a
 * row that ends the engine `limits.maxRowKills` times alone is given up.
 */
export class Isolation {
  #groups: Asking[][] = [];
  #fallen: Asking[] = [];
  #current: Asking[] = [];
  #unresolved = 0;

  /** True while only suspected rows may be asked. */
  get isActive(): boolean {
    return this.#unresolved > 0 || this.#groups.length > 0 || this.#fallen.length > 0;
  }

  /** True while a group is with the engine. */
  get isBusy(): boolean {
    return this.#unresolved > 0;
  }

  /** Rows to be asked with care, `together` at once. */
  suspect(rows: readonly Asking[][], together: number): void {
    for (let at = 0; at < rows.length; at += together) {
      this.#groups.push(rows.slice(at, at + together).flat());
    }
  }

  /** Notes a request that was with the engine when it died. */
  fell(asking: Asking): void {
    this.#fallen.push(asking);
    if (this.#unresolved > 0) this.#unresolved--;
  }

  /** Notes that a request of the present group came back in any other way. */
  resolved(asking: Asking): void {
    if (this.#unresolved > 0 && this.#current.includes(asking)) this.#unresolved--;
  }

  /**
   * Once nothing is with the engine: the group to ask next, if there is one. Rows that are given up
   * are handed to `giveUp`.
   */
  nextGroup(giveUp: (askings: Asking[], error: SluiceError) => void): Asking[] | undefined {
    this.#regroup(giveUp);
    const group = this.#groups.shift();
    this.#current = group ?? [];
    this.#unresolved = group?.length ?? 0;
    return group;
  }

  /** Forgets everything: the run is stopping. */
  clear(): void {
    this.#groups = [];
    this.#fallen = [];
    this.#current = [];
    this.#unresolved = 0;
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
    else giveUp(fallen, new SluiceError("ROW_KILLS_ENGINE", `row ${only.index}`));
  }
}
