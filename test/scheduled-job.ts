import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { results, status, verify } from "../src/api/inspect.ts";
import type { ExactRow } from "../src/foundation/exact-json.ts";

/**
 * Writes a job of rows that take 100 ms each, two at once in a worker, into a folder.
 *
 * @param keys of the backend and its workers.
 */
export function writeScheduledJob(folder: string, rows: number, keys: string): void {
  const texts = Array.from({ length: rows }, (_, row) => `{"id":"r${row}","text":"row ${row}"}\n`);
  writeFileSync(join(folder, "rows.jsonl"), texts.join(""));
  const job = `input: { path: rows.jsonl, id: id }
shard: { rows: 5 }
model: { engine: fake, latencyMs: 100, capacity: 2 }
prompt: "Say {{ text }}"
output: { path: out }
${keys}`;
  writeFileSync(join(folder, "job.yaml"), job);
}

/**
 * Has the rows of a written job take half a second each, one at a time in a worker, until they may
 * pass: no run is over before the test has looked at it. Answers do not follow from the rows.
 *
 * @returns lets the rows pass.
 */
export function slowed(folder: string): () => void {
  const [path, go] = [join(folder, "job.yaml"), join(folder, "go")];
  const slow = `import { existsSync } from "node:fs";
    export async function predict(batch) {
      if (!existsSync(${JSON.stringify(go)})) await new Promise((later) => setTimeout(later, 500));
      return batch.map(() => "said");
    }`;
  // In a folder of its own, which is sent where the run is carried out elsewhere.
  mkdirSync(join(folder, "slow"));
  writeFileSync(join(folder, "slow/predict.mjs"), slow);
  const model = "model: { engine: predictor, module: ./slow/predict.mjs, maxBatchRows: 1 }";
  const job = readFileSync(path, "utf8").replace(/^prompt: .*\n/m, "");
  writeFileSync(path, job.replace(/^model: .*$/m, model));
  return () => writeFileSync(go, "");
}

/**
 * Every row stands once in the results, which are returned, and the run is proven. Read in this
 * process: each command would take a third of a second of a core.
 *
 * @param place of a run of `writeScheduledJob`, absolute.
 */
export async function expectWhole(place: string, rows: number): Promise<ExactRow[]> {
  const found: ExactRow[] = [];
  for await (const row of results(place)) found.push(row);
  expect(found.map(({ id }) => id)).toEqual(Array.from({ length: rows }, (_, row) => `r${row}`));
  expect((await verify(place)).damages).toEqual([]);
  return found;
}

/** Rows of a run with an answer, committed or not; 0 before it is planned. Read likewise. */
export async function answeredIn(place: string): Promise<number> {
  const report = await status(place).catch(() => undefined);
  const { answered = 0, journaled = 0 } = report?.run.rows ?? {};
  return answered + journaled;
}

/** What was recorded of a run's submissions, in order. */
export function submissionsOf(directory: string) {
  const folder = join(directory, "_sluice/submissions");
  // A record that is just written has a temporary name as well.
  const names = readdirSync(folder)
    .filter((name) => !name.startsWith("."))
    .sort();
  return names.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")));
}
