import { limits } from "../../../foundation/limits.ts";

/** How requests go through a provider's batch API; the job's schema says what each key means. */
export interface ProviderBatchOptions {
  maxBatches: number;
  maxRequests: number;
  maxFileBytes: number;
  maxBatchDelayMs: number;
  pollMs: number;
  maxPollMs: number;
  keepFiles: boolean;
}

/** The settings of a job that does not say them. */
export const batchDefaults: Readonly<ProviderBatchOptions> = {
  maxBatches: limits.defaultProviderBatches,
  maxRequests: limits.maxProviderBatchRequests,
  maxFileBytes: limits.maxProviderBatchBytes,
  maxBatchDelayMs: limits.providerBatchDelayMs,
  pollMs: limits.providerPollMs,
  maxPollMs: limits.maxProviderPollMs,
  keepFiles: false,
};

/**
 * The settings of a model's batches, with their defaults. Not in `options.ts`: every worker reads
 * this, and would load zod for it.
 */
export function providerBatchOptions({
  batch,
}: {
  batch?: ProviderBatchOptions | undefined;
}): ProviderBatchOptions {
  return batch ?? batchDefaults;
}
