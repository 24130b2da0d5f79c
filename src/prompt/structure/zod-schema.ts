import { z } from "zod";
import type { JsonObject } from "../../foundation/json.ts";
import { jobInvalid } from "../answer-form.ts";

/** True for a zod 4 schema, even from another copy of the package. */
export function isZodSchema(value: unknown): value is z.ZodType {
  return typeof value === "object" && value !== null && "_zod" in value;
}

/**
 * The JSON Schema of a zod schema's input, before defaults and transforms. Checks by functions
 * (`refine`) are not part of it.
 *
 * @param key in the job, for messages.
 * @throws SluiceError `JOB_INVALID` if JSON Schema cannot express it.
 */
export function jsonSchemaOf(schema: z.ZodType, key: string): JsonObject {
  try {
    const { "~standard": _, ...plain } = z.toJSONSchema(schema, { io: "input" });
    return plain as JsonObject;
  } catch (cause) {
    throw jobInvalid(key, (cause as Error).message);
  }
}
