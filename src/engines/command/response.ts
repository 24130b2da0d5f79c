import { SluiceError } from "../../foundation/errors.ts";
import {
  addUsage,
  type InferenceRequest,
  type InferenceResponse,
} from "../../foundation/inference.ts";
import { isJsonObject, type Json } from "../../foundation/json.ts";
import { predictionResponse } from "../batching/prediction.ts";
import { type ReportedError, reportedError } from "./protocol.ts";

/** Codes that a program may give its failures; any other one is the item's own. */
const knownCodes = [
  "OUT_OF_MEMORY",
  "PROMPT_TOO_LONG",
  "UNSUPPORTED",
  "MODEL_TEMPLATE_UNUSABLE",
] as const;

/** A failure of a batch or of one item, as reported by a program. */
export function failureOf({ message, code }: ReportedError): SluiceError {
  const known = knownCodes.find((each) => each === code);
  return new SluiceError(known ?? "PREDICTION_FAILED", message);
}

/**
 * The answer in the result of one item: `{value}`, `{text}` or `{answers: […]}` of these.
 *
 * @param seconds the time of its batch.
 * @returns an error if the program reported one, or gave an invalid result.
 */
export function responseOf(
  result: unknown,
  { parameters }: InferenceRequest,
  seconds: number,
): InferenceResponse | Error {
  if (!isJsonObject(result)) return malformed("a result is not a JSON object", result);
  const { error, answers } = result;
  if (error !== undefined && error !== null) return failureOf(reportedError(error));
  const given: readonly Json[] = Array.isArray(answers) ? answers : [result];
  const wanted = parameters.numReturnSequences ?? 1;
  if (given.length !== wanted) {
    return malformed(`${given.length} answers where numReturnSequences asks for ${wanted}`, result);
  }
  const responses: InferenceResponse[] = [];
  for (const each of given) {
    const response = answerOf(each, seconds);
    if (response instanceof Error) return response;
    responses.push(response);
  }
  return responses.reduce(joined);
}

function answerOf(given: Json, seconds: number): InferenceResponse | SluiceError {
  if (!isJsonObject(given)) return malformed("an answer is not a JSON object", given);
  if (given.value !== undefined) return predictionResponse(given.value, seconds);
  const { text, finishReason = "stop", promptTokens = 0, completionTokens = 0 } = given;
  if (typeof text !== "string") return malformed("a result has neither text nor value", given);
  return predictionResponse({ text, finishReason, promptTokens, completionTokens }, seconds);
}

/** Several answers to one prompt, whose tokens count once. */
function joined(all: InferenceResponse, next: InferenceResponse): InferenceResponse {
  const usage = addUsage(all.usage, { ...next.usage, promptTokens: 0 });
  return { ...all, answers: [...all.answers, ...next.answers], usage };
}

function malformed(problem: string, value: unknown): SluiceError {
  const shown = (JSON.stringify(value) ?? "nothing").slice(0, 200);
  return new SluiceError("PREDICTION_FAILED", `${problem}: ${shown}`, {
    hint: "docs/engine-command.md says what a result is",
  });
}
