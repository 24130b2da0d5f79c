import type { InferenceRequest, InferenceResponse } from "../foundation/inference.ts";
import type { SpanAttributes } from "../foundation/telemetry.ts";

/** The name of a request's span, as OpenTelemetry's conventions for generative AI have it. */
export function requestSpanName(model: string, request: InferenceRequest): string {
  return `${operationOf(request)} ${model}`;
}

/** What a span says of a request: no word of its prompt. */
export function requestAttributes(
  provider: string,
  model: string,
  request: InferenceRequest,
): SpanAttributes {
  const { parameters } = request;
  const { explicit = [], numReturnSequences = 1 } = parameters;
  const isGiven = (name: keyof typeof parameters) => explicit.includes(name);
  return {
    "gen_ai.operation.name": operationOf(request),
    "gen_ai.provider.name": provider,
    "gen_ai.request.model": model,
    ...(isGiven("maxNewTokens") && { "gen_ai.request.max_tokens": parameters.maxNewTokens }),
    ...(isGiven("temperature") && { "gen_ai.request.temperature": parameters.temperature }),
    ...(isGiven("topP") && { "gen_ai.request.top_p": parameters.topP }),
    ...(isGiven("seed") && { "gen_ai.request.seed": parameters.seed }),
    ...(numReturnSequences > 1 && { "gen_ai.request.choice.count": numReturnSequences }),
    ...(request.structure && { "gen_ai.output.type": "json" }),
  };
}

/** What a span says of a response: no word of its answers. */
export function responseAttributes({
  answers,
  usage,
}: Pick<InferenceResponse, "usage"> & Partial<InferenceResponse>): SpanAttributes {
  const reasons = answers?.map(({ finishReason }) => finishReason);
  return {
    "gen_ai.usage.input_tokens": usage.promptTokens,
    "gen_ai.usage.output_tokens": usage.completionTokens,
    ...(usage.cachedTokens > 0 && { "gen_ai.usage.cache_read.input_tokens": usage.cachedTokens }),
    ...(reasons && { "gen_ai.response.finish_reasons": reasons }),
  };
}

/** Seconds until the first piece of an answer came, for `set`. */
export function firstPieceAttributes(seconds: number): SpanAttributes {
  return { "gen_ai.response.time_to_first_chunk": seconds };
}

function operationOf({ embed, file, messages, prompt }: InferenceRequest): string {
  if (embed) return "embeddings";
  if (messages !== undefined) return "chat";
  if (file !== undefined) return "transcription";
  return prompt === undefined ? "prediction" : "text_completion";
}
