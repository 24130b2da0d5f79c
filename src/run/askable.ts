import { unsupportedOptions } from "../engines/registry.ts";
import { SluiceError } from "../foundation/errors.ts";
import { compilePromptSet, type PromptSet } from "../prompt/prompt-set.ts";
import type { JobSpec } from "./job/schema.ts";

/** The prompts of a job, ready to be rendered, with the seed that its run has. */
export function promptSetOf(job: JobSpec, seed: number): PromptSet {
  return compilePromptSet({ ...job, generation: { ...job.generation, seed } });
}

/**
 * Refuses, before anything is planned, what could not be asked: templates that are not valid, and
 * options that the engine would have to drop.
 *
 * @throws SluiceError `TEMPLATE_INVALID`, `JOB_INVALID`, `UNSUPPORTED`.
 */
export function assertAskable(job: JobSpec): void {
  promptSetOf(job, 0);
  const prompts = job.prompt === undefined ? Object.values(job.prompts ?? {}) : [job.prompt];
  const policies = prompts.map(({ onTooLong }) => onTooLong);
  const unsupported = unsupportedOptions(job.model, job.generation, policies);
  if (unsupported.length === 0) return;
  const { engine } = job.model;
  throw new SluiceError("UNSUPPORTED", `engine ${engine} cannot do ${unsupported.join(", ")}`);
}
