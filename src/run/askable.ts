import { embeds, unsupportedOptions } from "../engines/registry.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { GenerationParameters } from "../foundation/inference.ts";
import { BatchPromptSet } from "../prompt/openai-batch/batch-prompt-set.ts";
import { withResponseBodies } from "../prompt/openai-batch/response-body.ts";
import { compilePromptSet, type PromptSet } from "../prompt/prompt-set.ts";
import { generationParameters } from "./job/generation.ts";
import type { JobSpec } from "./job/schema.ts";
import { assertBatchOutput, isBatchInput, writesBatchLines } from "./openai-batch/batch-lines.ts";

/** The prompts of a job, ready to be rendered, with the seed that its run has. */
export function promptSetOf(job: JobSpec, seed: number): PromptSet {
  const { returnFullText } = job.generation;
  const parameters = generationParameters(job.generation, seed);
  const promptSet = isBatchInput(job)
    ? batchPromptSet(job, parameters)
    : compilePromptSet({ ...job, generation: { ...parameters, returnFullText } });
  return writesBatchLines(job) ? withResponseBodies(promptSet, job.model.name) : promptSet;
}

function batchPromptSet({ input, model }: JobSpec, parameters: GenerationParameters): PromptSet {
  return new BatchPromptSet({
    parameters,
    models: [model.name, ...input.flatMap(({ servedModelName = [] }) => servedModelName)],
    embeds: embeds(model),
    unsupportedBy: (asked) => unsupportedOptions(model, asked, []).map(({ option }) => option),
  });
}

/**
 * Refuses, before anything is planned, what could not be asked: templates that are not valid, and
 * options that the engine would have to drop.
 *
 * @throws SluiceError `TEMPLATE_INVALID`, `JOB_INVALID`, `UNSUPPORTED`.
 */
export function assertAskable(job: JobSpec): void {
  assertBatchOutput(job);
  assertLogprobsKept(job);
  promptSetOf(job, 0);
  const prompts = job.prompt === undefined ? Object.values(job.prompts ?? {}) : [job.prompt];
  const policies = prompts.map(({ onTooLong }) => onTooLong);
  const parameters = generationParameters(job.generation, 0);
  const unsupported = unsupportedOptions(job.model, parameters, policies);
  if (unsupported.length === 0) return;
  const options = unsupported.map(({ option }) => option).join(", ");
  const hint = unsupported.map(({ hint }) => hint).join("; ");
  const message = `engine ${job.model.engine} cannot do ${options}`;
  throw new SluiceError("UNSUPPORTED", message, { hint });
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
  // Rows that are requests may ask for them one by one.
  if (isKept && !isAsked && !isBatchInput(job)) {
    throw new SluiceError("JOB_INVALID", "output.include has logprobs, which nothing asks for", {
      field: "output.include",
      hint: "set generation.logprobs to the number of likeliest tokens to report",
    });
  }
}
