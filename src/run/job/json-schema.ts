import { z } from "zod";
import { otherGenerationNames, otherRootNames } from "./generation-names.ts";
import { jobShape } from "./schema.ts";
import { formsOf, type SchemaNode } from "./schema-tree.ts";

/**
 * The JSON Schema (draft 2020-12) of the job file, as an editor wants it, made from the zod schema:
 * what `schema/job.json` must hold. `kind` at a key says what changing it does to a run that
 * already has answers.
 */
export function jobJsonSchema(): Readonly<Record<string, unknown>> {
  const { $schema, ...rest } = z.toJSONSchema(jobShape, { io: "input" });
  const { properties = {} } = rest as SchemaNode;
  const generation = formsOf(properties.generation!).find((form) => form.properties)!;
  addOtherNames(generation.properties!, otherGenerationNames);
  addOtherNames(properties, otherRootNames);
  return {
    $schema,
    title: "Sluice job",
    description: "What to read, which model answers which prompts, and where results go",
    ...rest,
  };
}

/** Editors take the other names of keys too; the program translates them before it checks. */
function addOtherNames(keys: Record<string, SchemaNode>, names: ReadonlyMap<string, string>): void {
  for (const [name, key] of names) {
    const own = keys[key]!;
    const { description: _, kind: __, default: ___, otherNames = [], ...type } = own;
    keys[name] = { ...type, description: `Another name of ${key}`, otherNameOf: key };
    keys[key] = { ...own, otherNames: [...otherNames, name] };
  }
}
