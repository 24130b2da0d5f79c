import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** What a job of the tests with real processes differs in. */
export interface JobChoices {
  rows: number;
  rowsPerTask: number;
  workers: number;
  model: Record<string, unknown>;
}

/** Where the run of a test lies when that is no folder beside its input. */
export interface FarOutput {
  /** As the job names it. */
  path: string;
  /** Folder in which the store keeps the objects of the run, as files. */
  folder: string;
  /** Folder of what is not in the store yet. */
  spool: string;
  /** What a program needs to reach the store. */
  environment: Readonly<Record<string, string>>;
}

/** A folder with input and job file, and what a run leaves in it. */
export class RunFiles {
  readonly directory: string;
  /** What the job calls its output. */
  readonly output: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly #rows: number;
  readonly #out: string;
  readonly #spool: string | undefined;

  constructor(
    directory: string,
    { rows, rowsPerTask, workers, model }: JobChoices,
    far?: FarOutput,
  ) {
    this.directory = directory;
    this.output = far?.path ?? "out";
    this.environment = far?.environment ?? {};
    this.#rows = rows;
    this.#out = far?.folder ?? join(directory, "out");
    this.#spool = far?.spool;
    mkdirSync(directory, { recursive: true });
    const lines = Array.from({ length: rows }, (_, row) => `{"id":"r${row}","text":"row ${row}"}`);
    writeFileSync(join(directory, "rows.jsonl"), `${lines.join("\n")}\n`);
    const job = {
      input: { path: "rows.jsonl", id: "id" },
      shard: { rows: rowsPerTask },
      model: { engine: "fake", countFile: "asked.txt", ...model },
      prompt: "Say something of {{ text }}",
      generation: { seed: 1 },
      output: { path: this.output },
      workers: { max: workers },
    };
    // JSON is YAML as well.
    writeFileSync(join(directory, "job.yaml"), JSON.stringify(job));
  }

  /** The published results, in order. */
  results(): string {
    const out = this.#out;
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
    const folder = join(this.#out, "_dead-letters");
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
    return existsSync(join(this.#out, "_SUCCESS"));
  }

  /** Rows whose answers stand in journals. They go once the run is sealed. */
  journaled(): Set<number> {
    // What is put into the store leaves the spool only then.
    const spooled = this.#spool === undefined ? [] : journaledRows(this.#spool);
    return new Set([...spooled, ...journaledRows(join(this.#out, "_sluice/attempts"))]);
  }
}

/** Row of each ask so far, from the fake engine's `countFile`. */
export function askedRows(countFile: string): number[] {
  const lines = readIfThere(countFile).split("\n").slice(0, -1);
  return lines.map((line) => Number.parseInt(line, 10));
}

/** Rows whose answers stand in the journals below a folder, whole ones or segments. */
export function journaledRows(folder: string): Set<number> {
  const rows = new Set<number>();
  if (!existsSync(folder)) return rows;
  for (const name of namesBelow(folder)) {
    if (!/journal\.jsonl(!\/\d+)?$/.test(name)) continue;
    const text = readIfThere(join(folder, name));
    for (const [, row] of text.matchAll(/^\{"index":(\d+),"outcome":"answered".*\}\n/gm)) {
      rows.add(Number(row));
    }
  }
  return rows;
}

/** A run that goes on removes folders as well, also while they are read. */
function namesBelow(folder: string): string[] {
  for (;;) {
    try {
      return readdirSync(folder, { recursive: true, encoding: "utf8" });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      if (!existsSync(folder)) return [];
    }
  }
}

/** A run that goes on removes journals at its seal, and one may have asked nothing yet. */
function readIfThere(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
