import { z } from "zod";
import { SluiceError } from "../foundation/errors.ts";
import type { JsonObject } from "../foundation/json.ts";
import { jsonSchemaOf } from "../prompt/structure/zod-schema.ts";

/** Kinds of schemas whose output differs from their input, with what a dataset has instead. */
const changing: Readonly<Record<string, string>> = {
  default: "say optional(), and fill it in with map",
  prefault: "say optional(), and fill it in with map",
  catch: "say what may be there, and correct it with map",
  transform: "do it with map",
  pipe: "do it with map",
};

/**
 * The JSON Schema of a zod schema that gives rows their type. Only the JSON Schema goes into the
 * plan and is checked by workers, so a schema with code would promise checks that nobody makes.
 *
 * @param key the schema's name in messages.
 * @throws SluiceError `JOB_INVALID` for defaults, transforms and checks by functions, and for what
 *   JSON Schema cannot express.
 */
export function edgeSchemaOf(schema: z.ZodType, key: string): JsonObject {
  const json = jsonSchemaOf(schema, key);
  z.toJSONSchema(schema, {
    io: "input",
    override: ({ zodSchema, path }) => assertPlain(zodSchema, placeOf(key, path)),
  });
  return json;
}

/** The names of the fields on a path, without JSON Schema keywords in between. */
function placeOf(key: string, path: readonly (string | number)[]): string {
  return [key, ...path.filter((step) => step !== "properties")].join(".");
}

function assertPlain({ _zod: { def } }: z.core.$ZodTypes, place: string): void {
  const instead = changing[def.type];
  const what = def.type === "pipe" ? "transform" : def.type;
  if (instead !== undefined) throw holdsCode(place, `a ${what}`, instead);
  for (const { _zod } of def.checks ?? []) {
    const { check } = _zod.def;
    if (check === "custom") throw holdsCode(place, "a check by a function", "do it with filter");
    if (check === "overwrite") throw holdsCode(place, "a change of the value", "do it with map");
  }
}

function holdsCode(place: string, what: string, instead: string): SluiceError {
  return new SluiceError("JOB_INVALID", `${place} has ${what}, which no worker would carry out`, {
    field: place,
    hint: instead,
  });
}
