import { z } from "zod";

/**
 * What changing a key of the job does to a run that already has answers: `answers` makes it another
 * run, `layout` is taken from the stored plan, `operation` may change at any time.
 */
export type SettingKind = "answers" | "layout" | "operation";

/** Marks a schema with what it means for resuming; keys inside inherit it. */
export function setting<S extends z.ZodType>(kind: SettingKind, description: string, schema: S): S {
  return schema.meta({ description, kind }) as S;
}

/** A whole number of 1 or more. */
export const atLeastOne = z.int().min(1);

/** A text without a line break. */
export const oneLine = z
  .string()
  .min(1)
  .regex(/^[^\r\n]+$/, "must be one line");
