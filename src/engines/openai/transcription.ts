import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, Usage } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { Random } from "../../foundation/random.ts";
import type { Answered, Call } from "./call.ts";
import { type FormField, formWithFile } from "./form.ts";
import { kindOf, malformed, parseReply, usageOf } from "./reply.ts";
import type { HttpReply } from "./transport.ts";

/**
 * The request for a transcript of a file, as a form with the file in it. The file is read while it
 * is sent, so that memory stays flat.
 *
 * @param fields the model, and the job's other members of each request.
 * @param random draws the text between the parts of the form, so that no file can contain it.
 * @throws SluiceError `FILE_UNREADABLE` if the file is missing or too large.
 */
export async function transcriptionCall(
  request: InferenceRequest,
  fields: JsonObject,
  random: Random,
): Promise<Call<Answered>> {
  const { file = "", parameters, transcription: given, trace } = request;
  const { temperature, explicit = [] } = parameters;
  const { translate = false, language, prompt, times } = given ?? {};
  const asked: JsonObject = {
    response_format: times ? "verbose_json" : "json",
    ...(language !== undefined && { language }),
    ...(prompt !== undefined && { prompt }),
    ...(explicit.includes("temperature") && { temperature }),
  };
  // A client sends each of a list's values under the same name.
  const granularities = (translate ? [] : (times ?? [])).map(
    (each): FormField => ["timestamp_granularities[]", each],
  );
  const bytes = await sizeOf(file);
  const all = [...Object.entries({ ...fields, ...asked }), ...granularities];
  const body = formWithFile(all, random, {
    name: basename(file),
    bytes,
    read: () => createReadStream(file, { end: bytes - 1 }),
  });
  return {
    ...{ form: translate ? "translation" : "transcription", tokens: 0, body: () => body },
    mayLackPath: given !== undefined,
    ...(trace && { traced: [request] }),
    read: (reply, redact) => readTranscript(reply, redact, times !== undefined),
  };
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

function readTranscript(
  reply: HttpReply,
  redact: (text: string) => string,
  isTimed: boolean,
): Answered {
  const body = parseReply(reply, redact);
  const { text, usage, segments, words } = body;
  if (typeof text !== "string") throw malformed(`text is ${kindOf(text)}`);
  const { promptTokens, completionTokens } = tokensOf(usage);
  if (isTimed && !Array.isArray(segments) && !Array.isArray(words)) {
    throw malformed("it has neither segments nor words");
  }
  const value = isTimed ? { value: body } : {};
  return {
    answers: [{ text, ...value, finishReason: "stop", tokens: completionTokens }],
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
