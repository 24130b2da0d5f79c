import type { GenerationParameters, InferenceRequest } from "../../foundation/inference.ts";

/**
 * Writes request bodies. What is the same for many requests is serialised once: the model, and the
 * parameters as long as the same object comes again.
 */
export class RequestWriter {
  readonly #model: string;
  readonly #isOpenaiItself: boolean;
  #parameters: GenerationParameters | undefined;
  #chatTail = "";
  #completionTail = "";

  /** @param isOpenaiItself leave out what api.openai.com would refuse. */
  constructor(model: string, isOpenaiItself: boolean) {
    this.#model = `{"model":${JSON.stringify(model)},`;
    this.#isOpenaiItself = isOpenaiItself;
  }

  /** The JSON text for a request: chat where it has messages, else completion. */
  write(request: InferenceRequest): string {
    if (request.parameters !== this.#parameters) this.#prepare(request.parameters);
    return request.messages === undefined
      ? `${this.#model}"prompt":${JSON.stringify(request.prompt ?? "")}${this.#completionTail}`
      : `${this.#model}"messages":${JSON.stringify(request.messages)}${this.#chatTail}`;
  }

  #prepare(parameters: GenerationParameters): void {
    this.#parameters = parameters;
    const fields = sampling(parameters, this.#isOpenaiItself);
    const limit = parameters.maxNewTokens;
    const chatLimit = this.#isOpenaiItself ? "max_completion_tokens" : "max_tokens";
    this.#chatTail = tail({ [chatLimit]: limit, ...fields });
    this.#completionTail = tail({ max_tokens: limit, ...fields });
  }
}

function tail(fields: Record<string, unknown>): string {
  return `,${JSON.stringify(fields).slice(1)}`;
}

function sampling(parameters: GenerationParameters, isOpenaiItself: boolean) {
  const { topK, minP, repetitionPenalty, presencePenalty, frequencyPenalty, stop } = parameters;
  const fields: Record<string, unknown> = {
    temperature: parameters.temperature,
    top_p: parameters.topP,
    seed: parameters.seed,
  };
  if (stop.length > 0) fields.stop = stop;
  if (presencePenalty !== 0) fields.presence_penalty = presencePenalty;
  if (frequencyPenalty !== 0) fields.frequency_penalty = frequencyPenalty;
  if (isOpenaiItself) return fields;
  if (topK !== 0) fields.top_k = topK;
  if (minP !== 0) fields.min_p = minP;
  if (repetitionPenalty !== 1) fields.repetition_penalty = repetitionPenalty;
  return fields;
}
