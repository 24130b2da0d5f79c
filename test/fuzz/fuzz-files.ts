import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hostileFile } from "./hostile-file.ts";

/** How reading one file ended, and the memory that the reader had taken until then. */
export type ReadOutcome = { peakBytes: number } & (
  | { rows: number }
  | { code: string; message: string }
);

export interface FuzzReport {
  files: number;
  /** Files that read as rows, and those that ended with a named error. */
  readable: number;
  refused: number;
  /** Steps that the limit of time or memory ended: hangs, were it not for it. */
  ended: number;
  /** What must not be, each with the seed of its file. */
  hangs: string[];
  unnamed: string[];
  silentLosses: string[];
  peakBytes: number;
}

/** The limit of a step of decoding, several times: the machine may be busy. */
const maxFileMs = 180_000;

/** Reads the hostile files of `files` seeds from `firstSeed` on, in a process that can be ended. */
export async function fuzzFiles(files: number, firstSeed: number): Promise<FuzzReport> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-fuzz-"));
  const reader = new Reader();
  const wholeRows = new Map<Buffer, number>();
  const report: FuzzReport = {
    ...{ files, readable: 0, refused: 0, ended: 0, hangs: [], unnamed: [], silentLosses: [] },
    peakBytes: 0,
  };
  const rowsOf = async (name: string, content: Buffer): Promise<ReadOutcome | undefined> => {
    const path = join(folder, name);
    writeFileSync(path, content);
    const outcome = await reader.read(path);
    report.peakBytes = Math.max(report.peakBytes, outcome?.peakBytes ?? 0);
    return outcome;
  };
  try {
    for (let seed = firstSeed; seed < firstSeed + files; seed++) {
      const { name, content, whole, mutation, isCount } = hostileFile(seed);
      const outcome = await rowsOf(name, content);
      const place = `seed ${seed}: ${name}, ${mutation}`;
      if (outcome === undefined) report.hangs.push(place);
      else if ("rows" in outcome) {
        report.readable++;
        if (!isCount || !/\.(parquet|arrows?|feather)$/.test(name)) continue;
        if (!wholeRows.has(whole)) {
          const before = await rowsOf(name, whole);
          wholeRows.set(whole, before && "rows" in before ? before.rows : Number.NaN);
        }
        const expected = wholeRows.get(whole)!;
        const loss = `${place}: ${outcome.rows} of ${expected} rows`;
        if (outcome.rows !== expected) report.silentLosses.push(loss);
      } else if (outcome.code === "unnamed" || outcome.code === "INTERNAL") {
        report.unnamed.push(`${place}: ${outcome.message}`);
      } else {
        report.refused++;
        if (/it takes more than \d/.test(outcome.message)) report.ended++;
      }
    }
    return report;
  } finally {
    reader.end();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A process that reads files; another one after each that it did not survive. */
class Reader {
  #child: ChildProcess | undefined;

  /** @returns undefined where it did not end in time, or ended the process. */
  async read(path: string): Promise<ReadOutcome | undefined> {
    this.#child ??= fork(join(import.meta.dirname, "read-program.ts"), { execArgv: [] });
    const child = this.#child;
    const outcome = await new Promise<ReadOutcome | undefined>((resolve) => {
      const timer = setTimeout(() => resolve(undefined), maxFileMs);
      const settle = (value: ReadOutcome | undefined) => {
        clearTimeout(timer);
        child.removeAllListeners("message");
        child.removeAllListeners("exit");
        resolve(value);
      };
      child.once("message", (value) => settle(value as ReadOutcome));
      child.once("exit", () => settle(undefined));
      child.send(path);
    });
    if (outcome === undefined) this.end("SIGKILL");
    return outcome;
  }

  end(signal: NodeJS.Signals = "SIGTERM"): void {
    this.#child?.kill(signal);
    this.#child = undefined;
  }
}
