import { runDependencies } from "../api/run-dependencies.ts";
import { absoluteLocation } from "../data/storage/open.ts";
import { isJsonObject, type Json } from "../foundation/json.ts";
import { silentLogger } from "../foundation/logger.ts";
import { locateRun } from "../run/directory/locate.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import type { JobSpec } from "../run/job/schema.ts";
import { answerInBatchLine, idFieldOf, writesBatchLines } from "../run/openai-batch/batch-lines.ts";
import { firstResults } from "../run/status/results.ts";
import { type Column, table } from "../terminal/table.ts";
import type { CliIo } from "./io.ts";

const maxLabelWidth = 24;

/**
 * Prints the first answers of a sealed run to stderr, a line for each prompt of a row, clipped to
 * the terminal: a person sees at a glance whether they make sense.
 *
 * @param output the run directory, or the results file.
 * @param rows how many; anything except a positive number counts as 3.
 */
export async function showAnswers(
  output: string,
  job: JobSpec,
  rows: number,
  io: CliIo,
): Promise<void> {
  const { openStorage, clock } = runDependencies(io, silentLogger, job.store);
  const { directory, outside } = locateRun(absoluteLocation(io.workingDirectory, output));
  const count = rows >= 1 ? Math.floor(rows) : 3;
  const [storage, beside] = [runStorage(openStorage(directory)), openStorage(outside)];
  const results = await firstResults(storage, beside, count, clock);
  const isBatch = writesBatchLines(job);
  const id = isBatch ? "custom_id" : job.input.map(idFieldOf).find((name) => name !== undefined);
  const { field } = job.output;
  const hasNames = job.prompts !== undefined;
  const cells = results.flatMap((result, at) => {
    const row = isJsonObject(result) ? result : {};
    const label = id === undefined ? undefined : row[id];
    const shown = label === undefined ? String(at) : compactText(label);
    const answer = isBatch ? answerInBatchLine(row) : (row[field] ?? null);
    if (!hasNames || !isJsonObject(answer)) return [[shown, "", compactText(answer)]];
    return Object.entries(answer).map(([name, value], place) => {
      return [place === 0 ? shown : "", name, compactText(value)];
    });
  });
  const columns = [{ title: id ?? "result", maxWidth: maxLabelWidth }, "prompt", field];
  const without = <T>(list: readonly T[]) => (hasNames ? list : list.toSpliced(1, 1));
  const lines = table(without<Column | string>(columns), cells.map(without), io.columns());
  io.stderr.write(`${lines.join("\n")}\n`);
}

/**
 * A value in one line for people: texts unchanged, members of lists and objects in a row, a slotted
 * answer as its text.
 *
 * @example
 * compactText({ times: ["5 min", null] }); // "times: 5 min | –"
 */
export function compactText(value: Json): string {
  if (value === null) return "–";
  if (Array.isArray(value)) return value.map(compactText).join(" | ") || "(none)";
  if (isJsonObject(value)) {
    if (typeof value.text === "string" && Object.keys(value).length > 1) return value.text.trim();
    const members = Object.entries(value).map(([key, inner]) => `${key}: ${compactText(inner)}`);
    return members.join("; ");
  }
  return String(value).trim() || "–";
}
