import type { SchemaNode } from "./schema-tree.ts";
import { schemaTree } from "./schema-tree.ts";

/**
 * The JSON Schema (draft 2020-12) of the job file, as an editor wants it. `kind` at a key says what
 * changing it does to a run that already has answers.
 */
export function jobJsonSchema(): Readonly<Record<string, unknown>> {
  const { $schema, ...rest } = schemaTree() as SchemaNode & { $schema?: string };
  return {
    $schema,
    title: "Sluice job",
    description: "What to read, which model answers which prompts, and where results go",
    ...rest,
  };
}
