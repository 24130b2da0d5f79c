import { z } from "zod";
import { SluiceError } from "../foundation/errors.ts";
import type { JsonObject } from "../foundation/json.ts";
import { jsonSchemaOf } from "../prompt/structure/zod-schema.ts";

/** Kinds of schemas that give another value than they get, and what does that in a dataset. */
const changing: Readonly<Record<string, string>> = {
  default: "say optional(), and fill it in with map",
  prefault: "say optional(), and fill it in with map",
  catch: "say what may be there, and mend it with map",
  transform: "do it with map",
  pipe: "do it with map",
};

/**
 * The JSON Schema of a zod schema whose type rows are to have. It goes into the plan, and workers
 * check rows by it alone, so that a schema that holds code would promise what nobody does.
 *
 * @param key what it is, for messages.
 * @throws SluiceError `JOB_INVALID` for defaults, transforms and checks by functions, and where
 *   JSON Schema cannot say it.
 */
export function edgeSchemaOf(schema: z.ZodType, key: string): JsonObject {
  const json = jsonSchemaOf(schema, key);
  z.toJSONSchema(schema, {
    io: "input",
    override: ({ zodSchema, path }) => assertPlain(zodSchema, placeOf(key, path)),
  });
  return json;
}

/** Fields alone, without the keywords of JSON Schema between them. */
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
