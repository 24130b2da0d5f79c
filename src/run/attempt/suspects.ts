import { indexesIn } from "../../foundation/index-set.ts";
import { limits } from "../../foundation/limits.ts";
import type { JournalLine } from "./journal-line.ts";
import type { OutcomeTable } from "./outcomes.ts";

/** How earlier attempts at a task ended, as far as their coordinator saw it. */
export interface EarlierEnds {
  /** An attempt whose worker died or hung by itself: one of its rows may have been the cause. */
  suspects?: {
    attempt: string;
    /** Rows that may have been in flight, as an index set. */
    rows: string;
    /** Most rows to send at once while one of them is suspected. */
    together: number;
    /** The worker hung. */
    stalled?: boolean;
  };
  /** An attempt whose worker was ended by its coordinator for another reason: no row is blamed. */
  spared?: string;
}

/** Rows to send before all others, with nothing beside them. */
export interface SuspectedRows {
  rows: ReadonlySet<number>;
  /** How many of them at once. */
  together: number;
}

interface Asked {
  attempt: string;
  together: number;
  /** Attempts that ended while the row was alone in flight. */
  kills: number;
  /** Requests of the row. */
  planned: number;
  /** The error with which an earlier attempt gave it up. */
  code?: DeadlyCode;
}

/** The error of a row that is given up because it ended its worker or its engine. */
export type DeadlyCode = "ROW_KILLS_ENGINE" | "ROW_STALLS_WORKER";

interface Condemned {
  index: number;
  kills: number;
  planned: number;
  code: DeadlyCode;
}

/** Deaths that make progress: each halves the suspects until one is alone. */
export function leadingDeaths(suspects: number): number {
  return Math.ceil(Math.log2(suspects + 1)) + limits.maxRowKills;
}

/**
 * Finds the rows that may have ended a worker, from the journals of earlier attempts and the
 * coordinator's view: rows that were sent and have no outcome on file. See ARCHITECTURE, "Four
 * searches for what kills an engine".
 */
export class SuspectSearch {
  readonly #ends: EarlierEnds;
  /** Rows that were sent as suspects, by index. */
  readonly #asked = new Map<number, Asked>();
  /** Rows that came back as failures in the attempt that died. */
  readonly #cleared = new Set<number>();

  constructor(ends: EarlierEnds) {
    this.#ends = ends;
  }

  /** Takes a line of the journal of `attempt`, except answers. Oldest attempt first. */
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

  /** Records that a row has an answer. */
  answered(index: number): void {
    this.#asked.delete(index);
  }

  /** Takes back the last suspicion of the spared attempt's rows; returns these rows. */
  spare(): number[] {
    const spared = [...this.#asked].filter(([, { attempt }]) => attempt === this.#ends.spared);
    for (const [index] of spared) this.#forgive(index);
    return spared.map(([index]) => index);
  }

  /** Open rows that ended their engine alone as often as allowed, and how often. */
  *condemned(outcomes: OutcomeTable): Generator<Condemned> {
    const last = this.#ends.suspects?.stalled ? "ROW_STALLS_WORKER" : "ROW_KILLS_ENGINE";
    for (const [index, { kills, planned, code = last }] of this.#asked) {
      if (kills < limits.maxRowKills || !outcomes.isOpen(index)) continue;
      yield { index, kills, planned, code };
    }
  }

  /** The suspects among the rows without an outcome. */
  suspected(outcomes: OutcomeTable): SuspectedRows {
    const rows = new Set<number>();
    const { rows: asked = "", together: most = 1 } = this.#ends.suspects ?? {};
    for (const index of asked === "" ? [] : indexesIn(asked)) {
      if (outcomes.isOpen(index) && !this.#cleared.has(index)) rows.add(index);
    }
    let together = Math.min(most, half(rows.size));
    // A group of suspects that did not come back is halved.
    for (const [index, asked] of this.#lastGroup()) {
      if (!outcomes.isOpen(index)) continue;
      if (rows.size === 0) together = half(asked.together);
      together = Math.min(together, half(asked.together));
      rows.add(index);
    }
    return { rows, together };
  }

  /** Unsettled suspects of the last attempt that sent any. */
  #lastGroup(): [index: number, asked: Asked][] {
    const attempts = [...this.#asked.values()].map(({ attempt }) => attempt);
    const last = attempts.toSorted().at(-1);
    return [...this.#asked].filter(([, { attempt }]) => attempt === last);
  }

  // A row that ends its engine stays given up: sent again, it would hide its neighbours' behaviour.
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
