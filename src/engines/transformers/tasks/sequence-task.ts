import { type InferenceRequest, requestSeed } from "../../../foundation/inference.ts";
import { SequenceSteps } from "../decode/sequence-steps.ts";
import { padRows } from "../decode/tensors.ts";
import type { TransformersModelOptions } from "../options.ts";
import type { Encoding } from "../transformers-js.ts";
import { textOf } from "./asked-text.ts";
import { TextTask } from "./encode.ts";
import { assertSearchable, type GeneratedItem, generate, generationCost } from "./generate.ts";
import { assertLanguages, encodeForTranslation, languagesOf } from "./languages.ts";
import type { CostedItem, ModelParts, TaskResult } from "./task.ts";

/** Translation and summarization: an encoder reads the text, a decoder writes the answer. */
export class SequenceTask extends TextTask<GeneratedItem> {
  /** @throws SluiceError `TASK_UNUSABLE` if the job does not fit the model. */
  constructor(parts: ModelParts, options: TransformersModelOptions) {
    super(parts, options);
    if (options.task === "translation") assertLanguages(options, parts.tokenizer);
  }

  itemOf(request: InferenceRequest): CostedItem<GeneratedItem> {
    const { parameters } = request;
    assertSearchable(parameters);
    const { encoding, forcedStart, languages } = this.#encode(request);
    const ids = encoding.input_ids;
    const room = (parameters.maxLength ?? Number.POSITIVE_INFINITY) - ids.length;
    const positions = this.parts.model.config.max_position_embeddings ?? Number.POSITIVE_INFINITY;
    const item = {
      ids,
      parameters,
      forcedStart,
      maxNewTokens: Math.max(1, Math.min(parameters.maxNewTokens, room, positions)),
      seed: requestSeed(request),
    };
    return { item, cost: generationCost(item, languages) };
  }

  async run(batch: readonly GeneratedItem[], signal: AbortSignal): Promise<readonly TaskResult[]> {
    const { model, tokenizer, makeTensor } = this.parts;
    const config = model._prepare_generation_config(null, {});
    const startToken = config.decoder_start_token_id ?? config.bos_token_id ?? 0;
    const rows = batch.map(({ ids }) => ids);
    const padded = padRows(rows, tokenizer.pad_token_id ?? 0, "right", makeTensor);
    const steps = await SequenceSteps.encode(model, padded, startToken, makeTensor);
    return generate(
      this.parts,
      steps,
      batch,
      batch.map(() => [startToken]),
      signal,
    );
  }

  #encode(request: InferenceRequest): Encoded {
    const { tokenizer, model } = this.parts;
    const { task, textColumn } = this.options;
    const prefix = model.config.task_specific_params?.[task]?.prefix ?? "";
    const text = prefix + textOf(request, textColumn);
    if (task !== "translation" || tokenizer.language_codes === undefined) {
      const whole = tokenizer._encode_plus(text, {});
      return { encoding: this.bounded(whole, text, request), languages: "" };
    }
    const languages = languagesOf(request, this.options, tokenizer.language_codes);
    const { encoding, forcedStart } = encodeForTranslation(text, languages, tokenizer);
    return {
      encoding: this.bounded(encoding, text, request),
      forcedStart,
      languages: `${languages.source}>${languages.target}`,
    };
  }
}

interface Encoded {
  encoding: Encoding;
  forcedStart?: number;
  languages: string;
}
