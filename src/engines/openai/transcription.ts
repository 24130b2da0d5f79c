import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse, Usage } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { type Random, randomInteger } from "../../foundation/random.ts";
import type { Call } from "./call.ts";
import { kindOf, malformed, parseReply, usageOf } from "./reply.ts";
import type { HttpReply, StreamedBody } from "./transport.ts";

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
  request: InferenceRequest,
  fields: JsonObject,
  random: Random,
): Promise<Call<Transcribed>> {
  const { file = "", parameters, trace } = request;
  const { temperature, explicit = [] } = parameters;
  const asked: JsonObject = explicit.includes("temperature") ? { temperature } : {};
  const drawn = Array.from({ length: 4 }, () => randomInteger(random, 2 ** 32).toString(36));
  const all = { ...fields, response_format: "json", ...asked };
  const body = formOf(all, file, await sizeOf(file), `sluice-${drawn.join("")}`);
  const call = {
    form: "transcription",
    tokens: 0,
    body: () => body,
    read: readTranscript,
  } as const;
  return { ...call, ...(trace && { traced: [request] }) };
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

function formOf(
  fields: JsonObject,
  file: string,
  fileBytes: number,
  boundary: string,
): StreamedBody {
  const part = (facts: string, rest: string) =>
    `--${boundary}\r\ncontent-disposition: form-data; ${facts}\r\n${rest}`;
  const parts = Object.entries(fields).map(([name, value]) =>
    part(`name="${quoted(name)}"`, `\r\n${textOf(value)}\r\n`),
  );
  const named = `name="file"; filename="${quoted(basename(file))}"`;
  const head = parts.join("") + part(named, "content-type: application/octet-stream\r\n\r\n");
  const tail = `\r\n--${boundary}--\r\n`;
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    contentLength: Buffer.byteLength(head) + fileBytes + Buffer.byteLength(tail),
    async *stream() {
      yield Buffer.from(head);
      if (fileBytes > 0) yield* createReadStream(file, { end: fileBytes - 1 });
      yield Buffer.from(tail);
    },
  };
}

/** In the browsers' way to write names in a form. */
function quoted(name: string): string {
  return name.replace(/["\r\n]/g, (character) => encodeURIComponent(character));
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
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
