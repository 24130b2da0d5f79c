import { z } from "zod";
import { jobShape } from "./schema.ts";

/**
 * The JSON Schema (draft 2020-12) of the job file, as an editor wants it, made from the zod schema:
 * what `schema/job.json` must hold. `kind` at a key says what changing it does to a run that
 * already has answers.
 */
export function jobJsonSchema(): Readonly<Record<string, unknown>> {
  const { $schema, ...rest } = z.toJSONSchema(jobShape, { io: "input" });
  return {
    $schema,
    title: "Sluice job",
    description: "What to read, which model answers which prompts, and where results go",
    ...rest,
  };
}
