import { describeEngine } from "../../engines/registry.ts";
import type { JobSpec } from "../job/schema.ts";

/**
 * The job with what its answers follow from besides what was written, such as the digest of a
 * module: a run is not gone on with when that changed.
 *
 * @throws SluiceError where a file of the engine cannot be read.
 */
export async function identifiedJob(job: JobSpec): Promise<JobSpec> {
  const { identified } = describeEngine(job.model);
  return identified ? { ...job, model: await identified(job.model) } : job;
}
