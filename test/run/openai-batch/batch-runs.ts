import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "../../../src/foundation/json.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { preparedRun, scratchFolder, type WholeRun } from "../whole-run.ts";

const chat = (id: string, body: JsonObject = {}) => ({
  custom_id: id,
  method: "POST",
  url: "/v1/chat/completions",
  body: { messages: [{ role: "user", content: `Question ${id}` }], ...body },
});

/** Lines of a batch with mixed URLs; those of `faulty` fail. */
export const batchLines: readonly string[] = [
  chat("a"),
  { ...chat("b"), url: "/v1/completions", body: { prompt: "Once", max_tokens: 3 } },
  chat("c", { model: "other" }),
  "not JSON",
  chat("d", { temperature: 0.5, seed: 3 }),
  { ...chat("e"), method: "GET" },
  chat("f", { stream: true }),
  { ...chat("g"), url: "/v1/images" },
  chat("h", { messages: [{ role: "developer", content: [{ type: "text", text: "x" }] }] }),
  { ...chat("i"), custom_id: 9 },
  chat("j"),
].map((line) => (typeof line === "string" ? line : JSON.stringify(line)));

/** `custom_id` of each line of the output. */
export const batchIds = ["a", "b", "c", null, "d", "e", "f", "g", "h", 9, "j"];
/** Codes of the lines that fail, by place. */
export const batchFaults: Readonly<Record<number, string>> = {
  2: "model_not_found",
  3: "invalid_json_line",
  5: "invalid_value",
  6: "unsupported_parameter",
  7: "invalid_url",
  9: "invalid_value",
};

/** A job over `batchLines` whose output is a batch's, not run yet. */
export function preparedBatch(
  output = "results.jsonl",
  errorFile?: string,
  changes: Partial<JobInput> = {},
): WholeRun {
  const folder = scratchFolder();
  const input = { path: join(folder, "rows.jsonl"), format: "openai-batch" as const };
  const error = errorFile === undefined ? {} : { errorFile: join(folder, errorFile) };
  return preparedRun(
    folder,
    `${batchLines.join("\n")}\n`,
    {
      input,
      prompt: undefined,
      shard: { rows: 4 },
      output: { path: join(folder, output), format: "openai-batch", ...error },
      ...changes,
    },
    output,
  );
}

/** A line of an output, as far as the tests look at it. */
export interface BatchResult {
  id: string;
  custom_id: string | null;
  response: { status_code: number; body: JsonObject & { created?: number } };
  error: { code: string; message: string } | null;
}

/** The lines of a file beside a run. */
export function resultsIn(run: WholeRun, name: string): BatchResult[] {
  const text = readFileSync(join(run.folder, name), "utf8");
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as BatchResult);
}
