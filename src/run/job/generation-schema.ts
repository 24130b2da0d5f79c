import { z } from "zod";
import { samplingTemperature, temperatureOf } from "../../foundation/inference.ts";
import type { Json } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { atLeastOne, setting } from "../../foundation/setting.ts";

// An absent key stays absent: engines must distinguish it from a written default. The schema still
// names the default, for people and editors.
function optional<S extends z.ZodType>(schema: S, description: string, standard?: Json) {
  const shown = standard === undefined ? {} : { default: standard };
  return schema.optional().meta({ description, ...shown });
}

const penalty = z.number().min(-2).max(2);

const shape = z.strictObject({
  maxNewTokens: optional(
    atLeastOne,
    "Most tokens of one answer; default: 1,024 with llama and openvino, the server's own, else 256",
  ),
  maxLength: optional(z.int().min(2), "Most tokens of prompt and answer, for maxNewTokens"),
  temperature: optional(z.number().min(0).max(10), "0 = the likeliest token each time", 0),
  topP: optional(z.number().gt(0).max(1), "Share of probability to sample from", 1),
  topK: optional(z.int().min(0), "Likeliest tokens to sample from; 0 = all", 0),
  minP: optional(z.number().min(0).max(1), "Least probability relative to the likeliest", 0),
  doSample: optional(
    z.boolean(),
    `false = temperature 0; true = temperature ${samplingTemperature} if none is given`,
  ),
  repetitionPenalty: optional(z.number().gt(0), "Above 1: repeat less", 1),
  presencePenalty: optional(penalty, "Above 0: new words", 0),
  frequencyPenalty: optional(penalty, "Above 0: fewer repeats", 0),
  seed: optional(
    z.int().min(0).max(0xffff_ffff),
    "Default: drawn and shown, and never sent to servers",
  ),
  stop: optional(
    z.union([z.string().transform((text) => [text]), z.array(z.string())]),
    "Texts that end an answer; default: none",
  ),
  ignoreEos: optional(z.boolean(), "Continue where the model would end the answer", false),
  numReturnSequences: optional(
    atLeastOne.max(limits.maxReturnSequences),
    "Answers to each prompt; above 1 they come as a list",
    1,
  ),
  numBeams: optional(atLeastOne.max(limits.maxBeams), "Beams of a beam search; 1 = none", 1),
  lengthPenalty: optional(
    z.number().min(-10).max(10),
    "For a beam search, above 0: longer answers; default: the model's, or 1",
  ),
  earlyStopping: optional(
    z.union([z.boolean(), z.literal("never")]),
    "Whether a beam search ends with as many answers as beams; default: the model's, or false",
  ),
  logprobs: optional(
    z.int().min(0).max(limits.maxLogprobs),
    "Likeliest tokens to report for each token, with output.include: [logprobs]",
    0,
  ),
  prependBos: optional(
    z.boolean(),
    "With api: completion, begin with the model's begin-of-text token; default: the model's",
  ),
  useCache: setting(
    "operation",
    "Accepted without effect: every engine has a prefix cache",
    z.boolean().optional(),
  ),
  returnFullText: z
    .boolean()
    .default(false)
    .describe("With api: completion, put the prompt before its continuation"),
});

export type Generation = z.output<typeof shape>;

function contradictions(generation: Generation): { key: keyof Generation; message: string }[] {
  const { maxNewTokens, maxLength, doSample, temperature } = generation;
  const { numReturnSequences = 1, numBeams = 1, lengthPenalty, earlyStopping } = generation;
  const found: { key: keyof Generation; message: string }[] = [];
  if (maxNewTokens !== undefined && maxLength !== undefined) {
    const message = "stands beside maxNewTokens: give one of them";
    found.push({ key: "maxLength", message });
  }
  if (doSample === true && temperature === 0) {
    found.push({ key: "temperature", message: "must be more than 0 with doSample: true" });
  }
  const hasBeams = numBeams > 1;
  for (const [key, value] of Object.entries({ lengthPenalty, earlyStopping })) {
    if (hasBeams || value === undefined) continue;
    const message = "needs a beam search: set numBeams above 1";
    found.push({ key: key as keyof Generation, message });
  }
  if (numReturnSequences > numBeams && temperatureOf(generation) === 0) {
    const message = hasBeams
      ? `asks for more answers than there are beams: ${numBeams}`
      : `gives ${numReturnSequences} times the same answer: set a temperature above 0`;
    found.push({ key: "numReturnSequences", message });
  }
  return found;
}

/** The form of a text; the draft of a job has made a map of every valid one. */
const pairs = z.string().transform((_, context): Generation => {
  context.addIssue({ code: "custom", message: "write it as key=value,key=value, each key once" });
  return z.NEVER;
});

/** The schema of `generation`: only our names, and only written values. */
export const generationOptions = z.union([
  pairs,
  shape.superRefine((generation, context) => {
    for (const { key, message } of contradictions(generation)) {
      context.addIssue({ code: "custom", path: [key], message });
    }
  }),
]);

/** Names of the keys of `generation`. */
export const generationKeys: readonly string[] = Object.freeze(Object.keys(shape.shape));
