import { answeredApis, describeEngine, unsupportedOptions } from "../../engines/registry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { SamplingParameters } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import { datasetPromptSet } from "../../prompt/datasets/dataset-prompt-set.ts";
import { BatchPromptSet } from "../../prompt/openai-batch/batch-prompt-set.ts";
import { withResponseBodies } from "../../prompt/openai-batch/response-body.ts";
import { compilePromptSet, type PromptSet, withStrippedAnswers } from "../../prompt/prompt-set.ts";
import { rowPromptSet, withRows } from "../../prompt/row-prompt-set.ts";
import { generationParameters } from "../job/generation.ts";
import type { JobSpec } from "../job/schema.ts";
import { assertBatchOutput, isBatchInput, writesBatchLines } from "../openai-batch/batch-lines.ts";

export function promptSetOf(job: JobSpec, seed: number): PromptSet {
  const promptSet = askedPromptSet(job, parametersOf(job, seed));
  const stripped = job.output.stripWhitespace ? withStrippedAnswers(promptSet) : promptSet;
  if (!writesBatchLines(job)) return stripped;
  return withResponseBodies(stripped, job.output.modelName ?? job.model.name);
}

function askedPromptSet(job: JobSpec, parameters: SamplingParameters): PromptSet {
  if (!describeEngine(job.model).takesRows) {
    if (job.longNumbers === undefined) return wordedPromptSet(job, parameters);
    const detail = `it has no effect with ${job.model.engine}, which reads prompts alone`;
    throw new SluiceError("JOB_INVALID", detail, { field: "longNumbers" });
  }
  const { longNumbers } = job;
  return hasPrompts(job)
    ? withRows(wordedPromptSet(job, parameters), longNumbers)
    : rowPromptSet(parameters, longNumbers);
}

function wordedPromptSet(job: JobSpec, parameters: SamplingParameters): PromptSet {
  if (isBatchInput(job)) return batchPromptSet(job, parameters);
  const { dataset, prompt, prompts, schema, truncateFeatures } = job;
  const { returnFullText } = job.generation;
  const common = { schema, generation: { ...parameters, returnFullText } };
  const emptied = <Options extends Emptied>(options: Options): Options =>
    withEmptied(options, truncateFeatures);
  if (dataset !== undefined) return datasetPromptSet(dataset.map(emptied), common);
  if (prompt !== undefined) return compilePromptSet({ ...common, prompt: emptied(prompt) });
  const named = Object.entries(prompts ?? {}).map(([name, it]) => [name, emptied(it)] as const);
  return compilePromptSet({ ...common, prompts: Object.fromEntries(named) });
}

/** False for a job whose engine takes rows without text. */
function hasPrompts(job: JobSpec): boolean {
  return isBatchInput(job) || [job.dataset, job.prompt, job.prompts].some((each) => each);
}

interface Emptied {
  truncateFeatures?: string[] | undefined;
}

function withEmptied<Options extends Emptied>(options: Options, features: string[] = []): Options {
  if (features.length === 0) return options;
  const { truncateFeatures = [] } = options;
  return { ...options, truncateFeatures: [...new Set([...truncateFeatures, ...features])] };
}

/** The common part of a job's requests, except those with parameters of their own. */
export function parametersOf(
  { generation, sequenceLen, model }: JobSpec,
  seed: number,
): SamplingParameters {
  // What a server is not sent still counts here, for example for limits on tokens a minute.
  const maxNewTokens = describeEngine(model).maxNewTokens ?? limits.maxNewTokens;
  const parameters = generationParameters(generation, seed, maxNewTokens);
  if (sequenceLen === undefined) return parameters;
  const { maxLength = sequenceLen } = parameters;
  return { ...parameters, maxLength: Math.min(maxLength, sequenceLen) };
}

function batchPromptSet({ input, model }: JobSpec, parameters: SamplingParameters): PromptSet {
  const names = input.flatMap(({ servedModelName = [] }) => servedModelName);
  return requestPromptSet(model, [model.name, ...names], parameters);
}

/**
 * Prompts of rows that are requests in OpenAI's form.
 *
 * @param names of the model that a request may use; `*` = any.
 * @param parameters of requests that do not set their own.
 */
export function requestPromptSet(
  model: JobSpec["model"],
  names: readonly string[],
  parameters: SamplingParameters,
): PromptSet {
  const {
    callsTools = false,
    contentParts = [],
    enforcesArguments = false,
  } = describeEngine(model);
  return new BatchPromptSet({
    parameters,
    models: names,
    gives: answeredApis(model),
    taken: { callsTools, contentParts },
    enforcesArguments,
    unsupportedBy: (asked) => unsupportedOptions(model, asked, []).map(({ option }) => option),
  });
}

/**
 * Refuses unusable requests before anything is planned: invalid templates, and options that the
 * engine would have to drop.
 *
 * @throws SluiceError `TEMPLATE_INVALID`, `JOB_INVALID`, `UNSUPPORTED`.
 */
export function assertAskable(job: JobSpec): void {
  assertReportable(job);
  assertBatchOutput(job);
  assertLogprobsKept(job);
  assertKeepable(job, promptSetOf(job, 0));
  const { prompt, prompts = {}, dataset } = job;
  const asked = dataset ?? (prompt === undefined ? Object.values(prompts) : [prompt]);
  assertAnswerable(
    job,
    asked.map(({ api }) => api),
  );
  assertImagesSeen(job);
  const policies = asked.map(({ onTooLong }) => onTooLong);
  const unsupported = unsupportedOptions(job.model, parametersOf(job, 0), policies);
  if (unsupported.length === 0) return;
  // A job without maxLength sets its engine's limit by sequenceLen.
  const isByLength = job.sequenceLen !== undefined && job.generation.maxLength === undefined;
  const options = unsupported
    .map(({ option }) => (isByLength && option === "generation.maxLength" ? "sequenceLen" : option))
    .join(", ");
  const hint = unsupported.map(({ hint }) => hint).join("; ");
  const message = `engine ${job.model.engine} cannot do ${options}`;
  throw new SluiceError("UNSUPPORTED", message, { hint });
}

/** Refuses embeddings and transcripts with an engine that makes none. */
function assertAnswerable({ model }: JobSpec, apis: readonly (string | undefined)[]): void {
  const made: Readonly<Record<string, boolean>> = answeredApis(model);
  const refused = apis.find((api) => api !== undefined && made[api] === false);
  if (refused === undefined) return;
  throw new SluiceError("UNSUPPORTED", `engine ${model.engine} cannot do api: ${refused}`, {
    hint: `take an engine that does, such as openai: see docs/engines.md`,
  });
}

function assertImagesSeen({ model, prompt, prompts = {} }: JobSpec): void {
  const isShown = [prompt, ...Object.values(prompts)].some((asked) => asked?.image !== undefined);
  if (!isShown || describeEngine(model).seesImages) return;
  throw new SluiceError("UNSUPPORTED", `engine ${model.engine} takes no images in prompts`, {
    hint: "ask a server that does with engine openai, or give rows that name them to a predictor",
  });
}

function assertKeepable({ preparedDir }: JobSpec, { keeper }: PromptSet): void {
  if (preparedDir === undefined || keeper !== undefined) return;
  throw new SluiceError("JOB_INVALID", "rows are sent as they are: no prompt is rendered", {
    field: "preparedDir",
    hint: "leave it out",
  });
}

function assertLogprobsKept(job: JobSpec): void {
  const isAsked = (job.generation.logprobs ?? 0) > 0;
  const isKept = job.output.include.includes("logprobs");
  if (isAsked && !isKept && !writesBatchLines(job)) {
    throw new SluiceError("JOB_INVALID", "generation.logprobs has no place in the results", {
      field: "generation.logprobs",
      hint: "add output.include: [logprobs]",
    });
  }
  // Rows that are requests may need them one by one.
  if (isKept && !isAsked && !isBatchInput(job)) {
    throw new SluiceError("JOB_INVALID", "output.include has logprobs, which nothing asks for", {
      field: "output.include",
      hint: "set generation.logprobs to the number of likeliest tokens to report",
    });
  }
}

/**
 * Refuses what a report cannot hold.
 *
 * @throws SluiceError `JOB_INVALID`, naming the key.
 */
function assertReportable(job: JobSpec): void {
  if (job.report === undefined) return;
  if (job.prompts !== undefined) throw invalid("prompts", "a row has one prompt");
  if (job.prompt?.forEach !== undefined) throw invalid("prompt.forEach", "a row has one prompt");
  if (writesBatchLines(job)) throw invalid("output.format", "it is made of results as jsonl");
  if (isBatchInput(job)) throw invalid("input.format", "rows are not requests");
}

function invalid(field: string, problem: string): SluiceError {
  return new SluiceError("JOB_INVALID", `with report axolotl ${problem}`, {
    field,
    hint: "leave report out, or change what it names",
  });
}
