import { describeEngine } from "../../engines/registry.ts";
import type { JobSpec } from "../job/schema.ts";

/**
 * The job with everything else that decides its answers, such as the digest of a module: if that
 * changes, a run is not continued.
 *
 * @throws SluiceError if a file of the engine cannot be read.
 */
export async function identifiedJob(job: JobSpec): Promise<JobSpec> {
  const { identified } = describeEngine(job.model);
  return identified ? { ...job, model: await identified(job.model) } : job;
}
