import { SluiceError } from "../../foundation/errors.ts";
import {
  estimatedTokens,
  type InferenceRequest,
  promptCharacters,
  type Usage,
} from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import type { BatchModel } from "../batching/batched.ts";
import type { Answered, Call } from "./call.ts";
import { kindOf, malformed, parseReply, usageOf } from "./reply.ts";
import type { RequestSender } from "./request-sender.ts";

/**
 * Vectors of several texts by one HTTP request. A refused text makes the whole request fail, so it
 * is found by halving; other failures belong to each text.
 *
 * @param fields JSON of the other members of each body.
 */
export function embeddingModel(
  sender: RequestSender,
  fields: string,
): BatchModel<InferenceRequest, Answered> {
  return {
    async run(batch, signal) {
      const texts = batch.map(({ prompt = "" }) => prompt);
      const body = `{${fields},"input":${JSON.stringify(texts)}}`;
      const call: Call<Vectors> = {
        form: "embedding",
        tokens: batch.reduce((sum, request) => sum + estimatedTokens(promptCharacters(request)), 0),
        ...(batch.some(({ trace }) => trace) && { traced: batch }),
        body: () => body,
        read: (reply, redact) => readVectors(parseReply(reply, redact), texts.length),
      };
      try {
        return withUsage(await sender.send(call, batch, signal), texts);
      } catch (error) {
        const isOfEach = error instanceof SluiceError && error.scope === "row" && error.retryable;
        if (!isOfEach) throw error;
        return texts.map(() => error);
      }
    },
  };
}

interface Vectors {
  vectors: Json[];
  usage: Usage;
}

/**
 * The answer to the request for the vector of one text.
 * @throws SluiceError `RESPONSE_MALFORMED`.
 */
export function readVector(body: JsonObject): Answered {
  const { vectors, usage } = readVectors(body, 1);
  return embedded(vectors[0]!, usage.promptTokens, usage.cachedTokens);
}

/** The vectors of a reply in the order of the texts. */
function readVectors({ data, usage }: JsonObject, count: number): Vectors {
  if (!Array.isArray(data)) throw malformed(`data is ${kindOf(data)}`);
  if (data.length !== count) throw malformed(`it holds ${data.length} of ${count} vectors`);
  const vectors: Json[] = new Array(count).fill(null);
  for (const [at, entry] of data.entries()) {
    if (!isJsonObject(entry)) throw malformed(`data[${at}] is ${kindOf(entry)}`);
    const { index = at, embedding } = entry;
    const isVector = Array.isArray(embedding) && embedding.length > 0;
    if (!isVector) throw malformed(`data[${at}].embedding is ${kindOf(embedding)}`);
    const stray = embedding.findIndex((each) => !Number.isFinite(each));
    if (stray >= 0) throw malformed(`data[${at}].embedding[${stray}] is not a finite number`);
    if (typeof index !== "number" || vectors[index] !== null) {
      throw malformed(`data[${at}].index is ${typeof index === "number" ? index : kindOf(index)}`);
    }
    vectors[index] = embedding;
  }
  return { vectors, usage: usageOf(usage) };
}

/** Servers count tokens in sum: each text has its share by its length. */
function withUsage({ vectors, usage }: Vectors, texts: readonly string[]): Answered[] {
  const { promptTokens: total, cachedTokens } = usage;
  const characters = Math.max(
    1,
    texts.reduce((sum, text) => sum + text.length, 0),
  );
  let before = 0;
  return vectors.map((value, at) => {
    const shareOf = (tokens: number) => {
      const upTo = (place: number) => Math.round((tokens * place) / characters);
      return upTo(before + texts[at]!.length) - upTo(before);
    };
    const own = embedded(value, shareOf(total), shareOf(cachedTokens));
    before += texts[at]!.length;
    return own;
  });
}

function embedded(value: Json, promptTokens: number, cachedTokens: number): Answered {
  const usage = { promptTokens, cachedTokens, completionTokens: 0 };
  return { answers: [{ text: "", value, finishReason: "stop", tokens: 0 }], usage };
}
