import { SluiceError } from "../../../foundation/errors.ts";
import type { InferenceRequest } from "../../../foundation/inference.ts";
import type { Json } from "../../../foundation/json.ts";
import type { TransformersModelOptions } from "../options.ts";
import type { Encoding, ModelConfig } from "../transformers-js.ts";
import { columnInvalid, columnOf, textOf } from "./asked-text.ts";
import { TextTask } from "./encode.ts";
import { encoderOutputs, floatsOf, softmax } from "./encoder-batch.ts";
import {
  type CostedItem,
  type ModelParts,
  shortNumber,
  type TaskResult,
  valueAnswer,
} from "./task.ts";

/** A text, and for each label the text beside the label's sentence. */
export interface LabelledItem {
  labels: readonly string[];
  pairs: readonly Encoding[];
}

/** Chooses among new labels by whether each label's sentence would follow from the text. */
export class ZeroShotTask extends TextTask<LabelledItem> {
  readonly #classes: { entailment: number; contradiction: number };

  /** @throws SluiceError `TASK_UNUSABLE` */
  constructor(parts: ModelParts, options: TransformersModelOptions) {
    super(parts, options);
    this.#classes = classesOf(parts.model.config);
    const { candidateLabels, candidateLabelsColumn } = options;
    if (candidateLabels === undefined && candidateLabelsColumn === undefined) {
      const hint = "set model.candidateLabels, or model.candidateLabelsColumn";
      throw new SluiceError("TASK_UNUSABLE", "there are no labels to choose among", { hint });
    }
  }

  itemOf(request: InferenceRequest): CostedItem<LabelledItem> {
    const { textColumn, hypothesisTemplate } = this.options;
    const text = textOf(request, textColumn);
    const labels = this.#labelsOf(request);
    const pairs = labels.map((label) => {
      const text_pair = hypothesisTemplate.replace("{}", () => label);
      const pair = this.parts.tokenizer._encode_plus(text, { text_pair });
      return this.bounded(pair, text, request);
    });
    const tokens = pairs.reduce((sum, { input_ids }) => sum + input_ids.length, 0);
    return { item: { labels, pairs }, cost: { tokens } };
  }

  async run(batch: readonly LabelledItem[]): Promise<readonly TaskResult[]> {
    const pairs = batch.flatMap((item) => item.pairs);
    const { logits } = await encoderOutputs(this.parts, pairs);
    const values = floatsOf(logits!);
    const classes = values.length / pairs.length;
    let first = 0;
    return batch.map((item) => {
      const own = item.labels.map((_, at) => {
        const start = (first + at) * classes;
        return values.subarray(start, start + classes);
      });
      first += item.labels.length;
      const promptTokens = item.pairs.reduce((sum, { input_ids }) => sum + input_ids.length, 0);
      return { answers: [valueAnswer(this.#judged(item.labels, own))], promptTokens };
    });
  }

  #labelsOf(request: InferenceRequest): string[] {
    const { candidateLabels, candidateLabelsColumn: column } = this.options;
    const own = column === undefined ? undefined : columnOf(request, column);
    if (own === undefined && candidateLabels !== undefined) return candidateLabels;
    const labels = typeof own === "string" ? own.split(",").map((label) => label.trim()) : own;
    const isList = Array.isArray(labels) && labels.length > 0;
    if (isList && labels.every((label) => typeof label === "string" && label !== "")) {
      return labels as string[];
    }
    throw columnInvalid(`${column} names no labels`, column!, "candidateLabelsColumn");
  }

  /** The likeliest label first. */
  #judged(labels: readonly string[], logits: readonly Float32Array[]): Json {
    const { entailment, contradiction } = this.#classes;
    const isEach = this.options.multiLabel || labels.length === 1;
    const scores = isEach
      ? logits.map((own) => softmax([own[contradiction]!, own[entailment]!])[1]!)
      : softmax(logits.map((own) => own[entailment]!));
    const order = scores.map((_, at) => at).sort((one, other) => scores[other]! - scores[one]!);
    return {
      labels: order.map((at) => labels[at]!),
      scores: order.map((at) => shortNumber(scores[at]!)),
    };
  }
}

/** The classes of the model for "follows" and for "contradicts". */
function classesOf({ label2id = {} }: ModelConfig): { entailment: number; contradiction: number } {
  const byName = new Map(
    Object.entries(label2id).map(([label, id]) => [label.toLowerCase(), Number(id)]),
  );
  const entailment = byName.get("entailment");
  const contradiction = byName.get("contradiction") ?? byName.get("not_entailment");
  if (entailment !== undefined && contradiction !== undefined) return { entailment, contradiction };
  const hint = "take a model that was trained on natural language inference (NLI)";
  const detail = "its classes are not entailment and contradiction";
  throw new SluiceError("TASK_UNUSABLE", detail, { hint });
}
