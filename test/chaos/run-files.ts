import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** What a job of the tests with real processes differs in. */
export interface JobChoices {
  rows: number;
  rowsPerTask: number;
  workers: number;
  model: Record<string, unknown>;
}

/** A folder with input and job file, and what a run leaves in it. */
export class RunFiles {
  readonly directory: string;
  readonly #rows: number;

  constructor(directory: string, { rows, rowsPerTask, workers, model }: JobChoices) {
    this.directory = directory;
    this.#rows = rows;
    mkdirSync(directory, { recursive: true });
    const lines = Array.from({ length: rows }, (_, row) => `{"id":"r${row}","text":"row ${row}"}`);
    writeFileSync(join(directory, "rows.jsonl"), `${lines.join("\n")}\n`);
    const job = {
      input: { path: "rows.jsonl", id: "id" },
      shard: { rows: rowsPerTask },
      model: { engine: "fake", countFile: "asked.txt", ...model },
      prompt: "Say something of {{ text }}",
      generation: { seed: 1 },
      output: { path: "out" },
      workers: { max: workers },
    };
    // JSON is YAML as well.
    writeFileSync(join(directory, "job.yaml"), JSON.stringify(job));
  }

  /** The published results, in order. */
  results(): string {
    const out = join(this.directory, "out");
    const parts = readdirSync(out).filter((name) => name.startsWith("part-"));
    return parts
      .sort()
      .map((name) => readFileSync(join(out, name), "utf8"))
      .join("");
  }

  /** What is wrong with ids and order of the results, if anything is. */
  orderProblem(failedRows: readonly number[] = []): string | undefined {
    const ids = this.results()
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => (JSON.parse(line) as { id: string }).id);
    const wanted = Array.from({ length: this.#rows }, (_, row) => row)
      .filter((row) => !failedRows.includes(row))
      .map((row) => `r${row}`);
    if (ids.join() === wanted.join()) return undefined;
    const at = wanted.findIndex((id, place) => ids[place] !== id);
    return `${ids.length} results, ${wanted.length} expected; place ${at} holds ${ids[at]}`;
  }

  deadLetters(): { index: number; code: string }[] {
    const folder = join(this.directory, "out/_dead-letters");
    if (!existsSync(folder)) return [];
    return readdirSync(folder)
      .sort()
      .flatMap((name) => readFileSync(join(folder, name), "utf8").trim().split("\n"))
      .map((line) => JSON.parse(line) as { index: number; code: string });
  }

  /** Row of each ask so far. */
  asked(): number[] {
    return askedRows(join(this.directory, "asked.txt"));
  }

  get isSealed(): boolean {
    return existsSync(join(this.directory, "out/_SUCCESS"));
  }

  /** Rows whose answers stand in journals. They go once the run is sealed. */
  journaled(): Set<number> {
    return journaledRows(join(this.directory, "out"));
  }
}

/** Row of each ask so far, from the fake engine's `countFile`. */
export function askedRows(countFile: string): number[] {
  const lines = readIfThere(countFile).split("\n").slice(0, -1);
  return lines.map((line) => Number.parseInt(line, 10));
}

/** Rows whose answers stand in the journals of a run directory. */
export function journaledRows(run: string): Set<number> {
  const rows = new Set<number>();
  const folder = join(run, "_sluice/attempts");
  if (!existsSync(folder)) return rows;
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith("journal.jsonl")) continue;
    const text = readIfThere(join(folder, name));
    for (const [, row] of text.matchAll(/^\{"index":(\d+),"outcome":"answered".*\}\n/gm)) {
      rows.add(Number(row));
    }
  }
  return rows;
}

/** A run that goes on removes journals at its seal, and one may have asked nothing yet. */
function readIfThere(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
