import { limits } from "../../../foundation/limits.ts";
import type { OpenaiModelOptions, ProviderBatchOptions } from "../options.ts";

/** The settings of a provider's batches in a job that does not say them. */
export const batchDefaults = {
  maxBatches: limits.defaultProviderBatches,
  maxRequests: limits.maxProviderBatchRequests,
  maxFileBytes: limits.maxProviderBatchBytes,
  maxBatchDelayMs: limits.providerBatchDelayMs,
  pollMs: limits.providerPollMs,
  maxPollMs: limits.maxProviderPollMs,
};

/**
 * The settings of a model's batches, with their defaults. Not in `options.ts`: every worker reads
 * this, and would load zod for it.
 */
export function providerBatchOptions({
  batch,
}: Pick<OpenaiModelOptions, "batch">): ProviderBatchOptions {
  return batch ?? batchDefaults;
}
