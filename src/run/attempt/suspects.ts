import { eachIndex, parseIndexSet } from "../../foundation/index-set.ts";
import { limits } from "../../foundation/limits.ts";
import type { JournalLine } from "./journal-line.ts";
import type { OutcomeTable } from "./outcomes.ts";

/** How earlier attempts at a task ended, as far as their coordinator saw it. */
export interface EarlierEnds {
  /** An attempt whose worker died by itself, or hung: one of its rows may have been the cause. */
  suspects?: {
    attempt: string;
    /** Rows that may have been asked and not have come back, as an index set. */
    rows: string;
    /** How many rows may be asked at once while one of them is suspected, at most. */
    together: number;
    /** It hung. */
    stalled?: boolean;
  };
  /** An attempt whose worker its coordinator ended for another reason: no row is to be blamed. */
  spared?: string;
}

/** Rows to be asked before all others and with nothing beside them. */
export interface SuspectedRows {
  rows: ReadonlySet<number>;
  /** How many of them at once. */
  together: number;
}

interface Asked {
  attempt: string;
  together: number;
  /** Attempts that ended while it was asked alone. */
  kills: number;
  /** Requests of the row. */
  planned: number;
  /** What it was given up for by an earlier attempt. */
  code?: DeadlyCode;
}

/** What a row is given up for that ended its worker or its engine. */
export type DeadlyCode = "ROW_KILLS_ENGINE" | "ROW_STALLS_WORKER";

interface Condemned {
  index: number;
  kills: number;
  planned: number;
  code: DeadlyCode;
}

/**
 * Works out, from the journals of earlier attempts and from what their coordinator saw, which rows
 * may have ended a worker: those that were asked and have no outcome on file.
 */
export class SuspectSearch {
  readonly #ends: EarlierEnds;
  /** Rows that were asked with care, by index. */
  readonly #asked = new Map<number, Asked>();
  /** Rows that came back as failures in the attempt that died. */
  readonly #cleared = new Set<number>();

  constructor(ends: EarlierEnds) {
    this.#ends = ends;
  }

  /** Takes a line of the journal of `attempt` other than an answer. Oldest attempt first. */
  read(line: JournalLine, attempt: string): void {
    const { index } = line;
    if (line.outcome === "asked") {
      const kills = (this.#asked.get(index)?.kills ?? 0) + (line.together === 1 ? 1 : 0);
      const { together, planned = 1 } = line;
      this.#asked.set(index, { attempt, together, kills, planned });
    } else if (line.outcome === "returned") {
      this.#forgive(index);
    } else if (line.outcome === "failed") {
      this.#noteFailed(line, attempt);
    }
  }

  /** Notes that a row has an answer. */
  answered(index: number): void {
    this.#asked.delete(index);
  }

  /** Takes the last asking with care back from rows of the spared attempt; says which they were. */
  spare(): number[] {
    const spared = [...this.#asked].filter(([, { attempt }]) => attempt === this.#ends.spared);
    for (const [index] of spared) this.#forgive(index);
    return spared.map(([index]) => index);
  }

  /** Open rows that ended their engine alone as often as a row may, and how often that was. */
  *condemned(outcomes: OutcomeTable): Generator<Condemned> {
    const last = this.#ends.suspects?.stalled ? "ROW_STALLS_WORKER" : "ROW_KILLS_ENGINE";
    for (const [index, { kills, planned, code = last }] of this.#asked) {
      if (kills < limits.maxRowKills || !outcomes.isOpen(index)) continue;
      yield { index, kills, planned, code };
    }
  }

  /** The rows under suspicion among those without an outcome. */
  suspected(outcomes: OutcomeTable): SuspectedRows {
    const rows = new Set<number>();
    const { rows: asked = "", together: most = 1 } = this.#ends.suspects ?? {};
    for (const index of asked === "" ? [] : eachIndex(parseIndexSet(asked))) {
      if (outcomes.isOpen(index) && !this.#cleared.has(index)) rows.add(index);
    }
    let together = Math.min(most, half(rows.size));
    // A group that was asked with care and did not come back is halved.
    for (const [index, asked] of this.#lastGroup()) {
      if (!outcomes.isOpen(index)) continue;
      if (rows.size === 0) together = half(asked.together);
      together = Math.min(together, half(asked.together));
      rows.add(index);
    }
    return { rows, together };
  }

  /** What the last attempt that asked with care had asked and not settled. */
  #lastGroup(): [index: number, asked: Asked][] {
    const attempts = [...this.#asked.values()].map(({ attempt }) => attempt);
    const last = attempts.toSorted().at(-1);
    return [...this.#asked].filter(([, { attempt }]) => attempt === last);
  }

  // A row that ends its engine stays given up: asked again, it would hide what its neighbours do.
  #noteFailed(line: Extract<JournalLine, { outcome: "failed" }>, attempt: string): void {
    const { index, error, planned = 1 } = line;
    if (attempt === this.#ends.suspects?.attempt) this.#cleared.add(index);
    const { code } = error;
    if (code === "ROW_KILLS_ENGINE" || code === "ROW_STALLS_WORKER") {
      this.#asked.set(index, { attempt, together: 1, kills: limits.maxRowKills, planned, code });
    } else {
      this.#asked.delete(index);
    }
  }

  #forgive(index: number): void {
    const before = this.#asked.get(index);
    if (!before) return;
    const kills = before.kills - (before.together === 1 ? 1 : 0);
    if (kills > 0) this.#asked.set(index, { ...before, kills });
    else this.#asked.delete(index);
  }
}

function half(count: number): number {
  return Math.max(1, Math.floor(count / 2));
}
