import { z } from "zod";
import type { JsonObject } from "../../foundation/json.ts";
import { jobInvalid } from "../answer-form.ts";

/** True for a schema made with zod 4, whichever copy of it a program has. */
export function isZodSchema(value: unknown): value is z.ZodType {
  return typeof value === "object" && value !== null && "_zod" in value;
}

/**
 * The JSON Schema of a zod schema: of what goes into it, before defaults and transforms. What only
 * a function can check (`refine`) is not part of it.
 *
 * @param key of the job, for messages.
 * @throws SluiceError `JOB_INVALID` when JSON Schema cannot say it.
 */
export function jsonSchemaOf(schema: z.ZodType, key: string): JsonObject {
  try {
    const { "~standard": _, ...plain } = z.toJSONSchema(schema, { io: "input" });
    return plain as JsonObject;
  } catch (cause) {
    throw jobInvalid(key, (cause as Error).message);
  }
}
