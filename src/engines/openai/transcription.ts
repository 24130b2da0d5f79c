import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse, Usage } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { Random } from "../../foundation/random.ts";
import type { Call } from "./call.ts";
import { formWithFile } from "./form.ts";
import { kindOf, malformed, parseReply, usageOf } from "./reply.ts";
import type { HttpReply } from "./transport.ts";

/** An engine's answer without its time. */
type Transcribed = Omit<InferenceResponse, "seconds">;

/**
 * The request for a transcript of a file, as a form with the file in it. The file is read while it
 * is sent, so that memory stays flat.
 *
 * @param fields the model, and the job's other members of each request.
 * @param random draws the text between the parts of the form, so that no file can contain it.
 * @throws SluiceError `FILE_UNREADABLE` if the file is missing or too large.
 */
export async function transcriptionCall(
  { file = "", parameters }: InferenceRequest,
  fields: JsonObject,
  random: Random,
): Promise<Call<Transcribed>> {
  const { temperature, explicit = [] } = parameters;
  const asked: JsonObject = explicit.includes("temperature") ? { temperature } : {};
  const bytes = await sizeOf(file);
  const body = formWithFile({ ...fields, response_format: "json", ...asked }, random, {
    name: basename(file),
    bytes,
    read: () => createReadStream(file, { end: bytes - 1 }),
  });
  return { form: "transcription", tokens: 0, body: () => body, read: readTranscript };
}

async function sizeOf(file: string): Promise<number> {
  const unreadable = (detail: string) => new SluiceError("FILE_UNREADABLE", `${file}: ${detail}`);
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => {
    throw unreadable(String(error.code));
  });
  if (!found.isFile()) throw unreadable("it is not a file");
  if (found.size <= limits.maxTranscribedBytes) return found.size;
  throw unreadable(`${found.size} bytes, the most is ${limits.maxTranscribedBytes}`);
}

function readTranscript(reply: HttpReply, redact: (text: string) => string): Transcribed {
  const { text, usage } = parseReply(reply, redact);
  if (typeof text !== "string") throw malformed(`text is ${kindOf(text)}`);
  const { promptTokens, completionTokens } = tokensOf(usage);
  return {
    answers: [{ text, finishReason: "stop", tokens: completionTokens }],
    usage: { promptTokens, cachedTokens: 0, completionTokens },
  };
}

/** Transcripts count `input_tokens` and `output_tokens`, or seconds, which are not tokens. */
function tokensOf(usage: Json | undefined): Usage {
  if (!isJsonObject(usage)) return usageOf(undefined);
  const { input_tokens: input = usage.prompt_tokens ?? 0 } = usage;
  const { output_tokens: output = usage.completion_tokens ?? 0 } = usage;
  return usageOf({ prompt_tokens: input, completion_tokens: output });
}
