import type { DrawnJob, DrawnRow } from "./drawn-job.ts";

/** What became of a row: answers to its prompts, which may be cut, or a dead letter's code. */
export type Outcome = { answers: string[]; isCut: boolean } | { code: string };

/**
 * The simple model that a run is compared with: a list of rows, and of each what it came to. It
 * knows nothing of tasks, workers, kills, journals and retries, for none of them may show.
 */
export class ExpectedRun {
  readonly #job: DrawnJob;
  readonly rows: DrawnRow[];
  readonly outcomes: Outcome[] = [];
  #isServerMended = false;

  constructor(job: DrawnJob) {
    this.#job = job;
    this.rows = [...job.rows];
  }

  /** Asks the rows that were never asked, as a run and an extension do. */
  askNewRows(): void {
    for (const row of this.rows.slice(this.outcomes.length)) {
      this.outcomes.push(this.#outcomeOf(row));
    }
  }

  /** Asks those that failed, as a retry does. */
  askFailedRows(): void {
    for (const [index, outcome] of this.outcomes.entries()) {
      if ("code" in outcome) this.outcomes[index] = this.#outcomeOf(this.rows[index]!);
    }
  }

  /** Asks those whose answers were cut, as a retry of them does. */
  askCutRows(): void {
    for (const [index, outcome] of this.outcomes.entries()) {
      if ("isCut" in outcome && outcome.isCut) {
        this.outcomes[index] = this.#outcomeOf(this.rows[index]!);
      }
    }
  }

  mendServer(): void {
    this.#isServerMended = true;
  }

  /** Makes whole rows of broken lines, and gives those that lack a text one. */
  mendRows(): void {
    for (const [index, row] of this.rows.entries()) {
      if (row.fate !== "broken" && row.fate !== "lacking") continue;
      this.rows[index] = { ...row, fate: "answered", text: `${row.text} mended` };
    }
  }

  append(rows: readonly DrawnRow[]): void {
    this.rows.push(...rows);
  }

  get answered(): number {
    return this.outcomes.filter((outcome) => "answers" in outcome).length;
  }

  get failed(): number {
    return this.outcomes.length - this.answered;
  }

  get cut(): number {
    return this.outcomes.filter((outcome) => "isCut" in outcome && outcome.isCut).length;
  }

  /** Dead letters by code. */
  get errors(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const outcome of this.outcomes) {
      if ("code" in outcome) counts[outcome.code] = (counts[outcome.code] ?? 0) + 1;
    }
    return counts;
  }

  #outcomeOf(row: DrawnRow): Outcome {
    const { engine, prefixes } = this.#job;
    const isMended = this.#isServerMended || engine === "fake";
    if (row.fate === "broken") return { code: "JSON_INVALID" };
    if (row.fate === "lacking") return { code: "VARIABLE_MISSING" };
    if (row.fate === "deadly" && !isMended) return { code: "ROW_KILLS_ENGINE" };
    if (row.fate === "refused" && !isMended) {
      return { code: engine === "openai" ? "REQUEST_REFUSED" : "PREDICTION_FAILED" };
    }
    const rest = `${row.text} / ${row.number} [${row.fate}]`;
    const answers = Object.values(prefixes).map((prefix) => `echo: ${prefix}${rest}`);
    // Predictors say nothing of it.
    const isCut = row.fate === "cut" && !isMended && engine !== "predictor";
    return { answers, isCut };
  }
}

/** The field of a row as its line has it. */
export function rowLine(row: DrawnRow): string {
  const { id, text, number, fate } = row;
  const line =
    fate === "lacking"
      ? `{"id":"${id}", "number":${number},"fate":"${fate}"}`
      : `{"id":"${id}","text":${JSON.stringify(text)}, "number":${number},"fate":"${fate}"}`;
  return fate === "broken" ? line.slice(0, -4) : line;
}
