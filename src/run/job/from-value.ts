import { isJsonObject, type Json } from "../../foundation/json.ts";
import { isZodSchema, jsonSchemaOf } from "../../prompt/structure/zod-schema.ts";
import { checkJob } from "./check.ts";
import { JobDraft } from "./draft.ts";
import { withAbsolutePaths } from "./paths.ts";
import { problemsError } from "./problem.ts";
import type { JobInput, JobSpec } from "./schema.ts";

/**
 * A job that a program wrote, validated, with defaults filled in. Only defaults are laid under it:
 * no file, no environment. Relative paths start from `workingDirectory`. A `schema` may be one of
 * zod.
 *
 * @throws SluiceError `JOB_INVALID`, naming every problem there is.
 * @example
 * const model = { engine: "fake" };
 * jobFromValue({ input: "rows.jsonl", model, prompt: "Say {{ text }}" }, "/data");
 */
export function jobFromValue(
  value: JobInput,
  workingDirectory: string,
  userDirectory?: string,
): JobSpec {
  const draft = new JobDraft();
  for (const [key, given] of Object.entries(value)) {
    if (given === undefined) continue;
    draft.set([key], withJsonSchemas(given, [key]) as Json, { from: "default" });
  }
  const checked = checkJob(draft);
  if ("problems" in checked) throw problemsError(checked.problems);
  return withAbsolutePaths(checked.job, { baseOf: () => workingDirectory, userDirectory });
}

/** A value of the job with its schemas as data, which is all that a plan can hold. */
function withJsonSchemas(value: unknown, path: readonly string[]): unknown {
  // schema, prompt.schema, prompts.NAME.schema, input.schema, input.0.schema.
  if (isZodSchema(value)) return jsonSchemaOf(value, path.join("."));
  const depth = { prompts: 2, input: 2, prompt: 1 }[path[0] ?? ""] ?? 0;
  if (path.length > depth) return value;
  if (Array.isArray(value))
    return value.map((each, at) => withJsonSchemas(each, [...path, `${at}`]));
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).map(
    ([name, inner]) => [name, withJsonSchemas(inner, [...path, name])] as const,
  );
  return Object.fromEntries(entries);
}
