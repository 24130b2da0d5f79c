import { z } from "zod";
import { fakeModel } from "./fake/options.ts";
import { llamaModel } from "./llama/options.ts";
import { openaiModel } from "./openai/options.ts";

/** The model of a job: which engine, which weights, and how it is driven. */
export const modelOptions = z.discriminatedUnion("engine", [llamaModel, openaiModel, fakeModel]);

export type ModelOptions = z.output<typeof modelOptions>;
