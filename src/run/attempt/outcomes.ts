import { indexesIn } from "../../foundation/index-set.ts";
import type { Task } from "../plan/plan.ts";
import type { JournalPlace } from "./journal.ts";

/** The state of a row: open, or how it ended. `excluded` rows are not in the plan. */
export type RowOutcome = "open" | "answered" | "filtered" | "failed" | "excluded";

const codes: readonly RowOutcome[] = ["open", "answered", "filtered", "failed", "excluded"];

/**
 * The outcome of each row of a task and its place in the journal: 13 bytes a row, whatever its
 * size.
 */
export class OutcomeTable {
  readonly firstRow: number;
  readonly rows: number;
  readonly #outcomes: Uint8Array;
  readonly #offsets: Float64Array;
  readonly #bytes: Uint32Array;
  #open: number;
  #failures = 0;
  /** Rows with an answer that reached its token limit. */
  readonly cut: number[] = [];

  constructor(task: Task) {
    this.firstRow = task.firstRow;
    this.rows = task.rows;
    this.#outcomes = new Uint8Array(task.rows);
    this.#offsets = new Float64Array(task.rows);
    this.#bytes = new Uint32Array(task.rows);
    this.#open = task.rows;
    if (task.only !== undefined) this.#excludeAllBut(task.only);
  }

  /** Rows without an outcome. */
  get open(): number {
    return this.#open;
  }

  get failures(): number {
    return this.#failures;
  }

  of(index: number): RowOutcome {
    return codes[this.#outcomes[index - this.firstRow] ?? 4]!;
  }

  /** True if the row has no outcome yet. */
  isOpen(index: number): boolean {
    return this.#outcomes[index - this.firstRow] === 0;
  }

  /**
   * Sets a row's outcome. A row has exactly one: returns false, without a change, if it already
   * has.
   */
  settle(index: number, outcome: "answered" | "filtered" | "failed", place: JournalPlace): boolean {
    const at = index - this.firstRow;
    if (this.#outcomes[at] !== 0) return false;
    this.#outcomes[at] = codes.indexOf(outcome);
    this.#offsets[at] = place.offset;
    this.#bytes[at] = place.bytes;
    this.#open--;
    if (outcome === "failed") this.#failures++;
    return true;
  }

  /** Where the row's answer, or the line of its failure, is in the journal. */
  place(index: number): JournalPlace {
    const at = index - this.firstRow;
    return { offset: this.#offsets[at]!, bytes: this.#bytes[at]! };
  }

  #excludeAllBut(only: string): void {
    this.#outcomes.fill(4);
    this.#open = 0;
    for (const index of indexesIn(only)) {
      this.#outcomes[index - this.firstRow] = 0;
      this.#open++;
    }
  }
}
