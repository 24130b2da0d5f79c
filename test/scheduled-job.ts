import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

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

/** What was recorded of a run's submissions, in order. */
export function submissionsOf(directory: string) {
  const folder = join(directory, "_sluice/submissions");
  const names = readdirSync(folder).sort();
  return names.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")));
}
