import { SluiceError } from "../../../foundation/errors.ts";
import type { Answer, SamplingParameters } from "../../../foundation/inference.ts";
import { seededRandom } from "../../../foundation/random.ts";
import type { BatchCost } from "../../batching/next-batch.ts";
import { searchBeams } from "../decode/beam-search.ts";
import { sampleRows } from "../decode/sample.ts";
import type { GeneratedRow, LogitsRules, Sequence, Steps } from "../decode/steps.ts";
import type { MakeTensor } from "../decode/tensors.ts";
import type { GenerationConfig, Model, Tokenizer } from "../transformers-js.ts";
import type { ModelParts, TaskResult } from "./task.ts";

/** A row to generate text for. */
export interface GeneratedItem {
  /** Tokens of its prompt. */
  ids: readonly number[];
  parameters: SamplingParameters;
  /** Most tokens to generate for it. */
  maxNewTokens: number;
  /** The language at the beginning of its answer, for a multilingual model. */
  forcedStart?: number | undefined;
  /** The seed of its answers, independent of the rest of the batch. */
  seed: number;
}

/**
 * What the rows of a batch must have in common to be generated together, as one text: all
 * parameters except the seed.
 */
function generationKey({ parameters, forcedStart }: GeneratedItem): string {
  const { seed: _seed, explicit: _explicit, ...asked } = parameters;
  return JSON.stringify([forcedStart, asked]);
}

/**
 * Refuses unsupported combinations of parameters.
 *
 * @throws SluiceError `UNSUPPORTED`.
 */
export function assertSearchable({ numBeams = 1, temperature }: SamplingParameters): void {
  if (numBeams === 1 || temperature === 0) return;
  const hint = "leave temperature at 0, or numBeams at 1";
  throw new SluiceError("UNSUPPORTED", "a beam search has no temperature", { hint });
}

/** A row's share of a batch: its tokens once for each computed beam or answer. */
export function generationCost(item: GeneratedItem, languages = ""): BatchCost {
  const { numBeams = 1, numReturnSequences = 1 } = item.parameters;
  const tokens = item.ids.length * Math.max(numBeams, numReturnSequences);
  return { tokens, key: `${languages} ${generationKey(item)}` };
}

/**
 * Generates the answers of a batch whose items have one `generationKey`.
 *
 * @param decoderPrompts the beginning of the decoder's text, row by row.
 */
export async function generate(
  { model, tokenizer, makeTensor }: ModelParts,
  steps: Steps,
  batch: readonly GeneratedItem[],
  decoderPrompts: readonly (readonly number[])[],
  signal: AbortSignal,
): Promise<TaskResult[]> {
  const { parameters, forcedStart } = batch[0]!;
  const lengths = batch.map((item, at) => decoderPrompts[at]!.length + item.maxNewTokens);
  // Else the file of the model decides.
  const isSet =
    parameters.explicit?.includes("repetitionPenalty") || parameters.repetitionPenalty !== 1;
  const config = model._prepare_generation_config(null, {
    do_sample: false,
    max_new_tokens: null,
    max_length: Math.max(...lengths),
    ...(forcedStart !== undefined && { forced_bos_token_id: forcedStart }),
    ...(isSet && { repetition_penalty: parameters.repetitionPenalty }),
  });
  const endTokens = endTokensOf(config, tokenizer);
  const rules = rulesMaker(model, config, makeTensor, parameters.ignoreEos ? endTokens : undefined);
  const rows = batch.map(({ maxNewTokens }, at) => {
    const prompt = decoderPrompts[at]!;
    return { prompt, maxNewTokens, rules: rules(prompt.length) };
  });
  const ends = parameters.ignoreEos ? new Set<number>() : endTokens;
  const search = { config, endTokens: ends, tokenizer };
  const isBeam = (parameters.numBeams ?? 1) > 1;
  const sequences = isBeam
    ? await beams(steps, batch, rows, search, signal)
    : await samples(steps, batch, rows, search, signal);
  return batch.map((item, at) => ({
    answers: sequences[at]!.map((sequence) => answerOf(sequence, item.parameters.stop, tokenizer)),
    promptTokens: item.ids.length,
  }));
}

interface Search {
  config: GenerationConfig;
  endTokens: ReadonlySet<number>;
  tokenizer: Tokenizer;
}

function beams(
  steps: Steps,
  batch: readonly GeneratedItem[],
  rows: readonly GeneratedRow[],
  { config, endTokens }: Search,
  signal: AbortSignal,
): Promise<Sequence[][]> {
  const { numBeams = 1, numReturnSequences = 1, ...given } = batch[0]!.parameters;
  const options = {
    numBeams,
    numReturnSequences,
    lengthPenalty: given.lengthPenalty ?? config.length_penalty ?? 1,
    earlyStopping: given.earlyStopping ?? config.early_stopping ?? false,
    endTokens,
  };
  return searchBeams(steps, rows, options, signal);
}

async function samples(
  steps: Steps,
  batch: readonly GeneratedItem[],
  rows: readonly GeneratedRow[],
  { endTokens, tokenizer }: Search,
  signal: AbortSignal,
): Promise<Sequence[][]> {
  const { parameters } = batch[0]!;
  const { numReturnSequences: copies = 1, stop } = parameters;
  const sampled = batch.flatMap((item, at) =>
    Array.from({ length: copies }, (_, copy) => ({
      ...rows[at]!,
      random: seededRandom(item.seed + copy),
      ...(stop.length > 0 && {
        isEnough: (tokens: readonly number[]) => stopPlace(textOf(tokens, tokenizer), stop) >= 0,
      }),
    })),
  );
  const sequences = await sampleRows(steps, sampled, { parameters, endTokens, copies }, signal);
  return batch.map((_, at) => sequences.slice(at * copies, (at + 1) * copies));
}

function endTokensOf({ eos_token_id }: GenerationConfig, tokenizer: Tokenizer): Set<number> {
  const ids = eos_token_id ?? tokenizer.eos_token_id ?? [];
  return new Set(typeof ids === "number" ? [ids] : ids);
}

/** Rules for rows with this number of tokens at the beginning of the decoder's text. */
function rulesMaker(
  model: Model,
  config: GenerationConfig,
  makeTensor: MakeTensor,
  forbidden: ReadonlySet<number> | undefined,
): (promptTokens: number) => LogitsRules {
  const made = new Map<number, LogitsRules>();
  const make = (promptTokens: number): LogitsRules => {
    const processors = model._get_logits_processor(config, promptTokens);
    const isEmpty = processors.processors.length === 0;
    return (tokens, logits) => {
      if (!isEmpty) {
        const given = makeTensor("float32", logits, [1, logits.length]);
        const { data } = processors([tokens.map(BigInt)], given);
        if (data !== logits) logits.set(data as Float32Array);
      }
      for (const token of forbidden ?? []) logits[token] = Number.NEGATIVE_INFINITY;
    };
  };
  return (promptTokens) => {
    const rules = made.get(promptTokens) ?? make(promptTokens);
    made.set(promptTokens, rules);
    return rules;
  };
}

function textOf(tokens: readonly number[], tokenizer: Tokenizer): string {
  return tokenizer.decode(tokens, { skip_special_tokens: true });
}

function answerOf(
  { tokens, finishReason }: Sequence,
  stop: readonly string[],
  tokenizer: Tokenizer,
): Answer {
  const text = textOf(tokens, tokenizer);
  const end = stopPlace(text, stop);
  if (end < 0) return { text, finishReason, tokens: tokens.length };
  return { text: text.slice(0, end), finishReason: "stop", tokens: tokens.length };
}

/** The first place of any of some texts; -1 if there is none. */
function stopPlace(text: string, stop: readonly string[]): number {
  const places = stop.map((each) => text.indexOf(each)).filter((place) => place >= 0);
  return places.length === 0 ? -1 : Math.min(...places);
}
