import { SluiceError } from "../../../foundation/errors.ts";
import { type InferenceRequest, requestSeed } from "../../../foundation/inference.ts";
import { CausalSteps } from "../decode/causal-steps.ts";
import { padRows } from "../decode/tensors.ts";
import type { TransformersModelOptions } from "../options.ts";
import { textOf } from "./asked-text.ts";
import { modelMaxTokens, TextTask, withinBounds } from "./encode.ts";
import { assertSearchable, type GeneratedItem, generate, generationCost } from "./generate.ts";
import type { CostedItem, ModelParts, TaskResult } from "./task.ts";

/** Text generation: the model continues from the end of the prompt. */
export class CausalTask extends TextTask<GeneratedItem> {
  readonly #contextTokens: number;

  constructor(parts: ModelParts, options: TransformersModelOptions) {
    super(parts, options);
    this.#contextTokens = modelMaxTokens(parts.model, parts.tokenizer);
  }

  itemOf(request: InferenceRequest): CostedItem<GeneratedItem> {
    const { parameters } = request;
    assertSearchable(parameters);
    const { maxLength = Number.POSITIVE_INFINITY } = parameters;
    const context = Math.min(this.#contextTokens, maxLength);
    const { maxInputTokens = Number.POSITIVE_INFINITY, onTooLong = request.onTooLong ?? "fail" } =
      this.options;
    // A prompt that would leave less than the requested answer is too long.
    const answerTokens = Math.min(parameters.maxNewTokens, maxLength - 1);
    const wanted = parameters.maxLength === undefined ? answerTokens : 1;
    const maxTokens = Math.min(maxInputTokens, context - wanted);
    // In a conversation, the template's own text would be cut as well.
    const policy = request.messages === undefined ? onTooLong : "fail";
    const { ids, content } = this.#encode(request);
    const { input_ids } = withinBounds({ input_ids: ids }, content, {
      maxTokens,
      onTooLong: policy,
    });
    const item = {
      ids: input_ids,
      parameters,
      maxNewTokens: Math.max(1, Math.min(answerTokens, context - input_ids.length)),
      seed: requestSeed(request),
    };
    return { item, cost: generationCost(item) };
  }

  run(batch: readonly GeneratedItem[], signal: AbortSignal): Promise<readonly TaskResult[]> {
    const { model, tokenizer, makeTensor } = this.parts;
    const rows = batch.map(({ ids }) => ids);
    const padToken = tokenizer.pad_token_id ?? tokenizer.eos_token_id ?? 0;
    const steps = new CausalSteps(model, padRows(rows, padToken, "left", makeTensor), makeTensor);
    return generate(this.parts, steps, batch, rows, signal);
  }

  #encode(request: InferenceRequest): { ids: number[]; content: number[] } {
    const { tokenizer } = this.parts;
    const { messages } = request;
    const text =
      messages === undefined ? textOf(request, this.options.textColumn) : this.#chatText(messages);
    const content = tokenizer._encode_plus(text, { add_special_tokens: false }).input_ids;
    const ids = messages === undefined ? tokenizer._encode_plus(text, {}).input_ids : content;
    if (ids.length > 0) return { ids, content };
    throw new SluiceError("REQUEST_REFUSED", "the prompt is empty");
  }

  #chatText(messages: NonNullable<InferenceRequest["messages"]>): string {
    const { tokenizer } = this.parts;
    if (tokenizer.chat_template === null) {
      throw new SluiceError("MODEL_TEMPLATE_UNUSABLE", "the model has no chat template");
    }
    try {
      const options = { tokenize: false, add_generation_prompt: true } as const;
      return tokenizer.apply_chat_template(messages, options);
    } catch (cause) {
      const detail = (cause as Error).message;
      throw new SluiceError("MODEL_TEMPLATE_UNUSABLE", detail, { cause });
    }
  }
}
