import { type JobInput, jobSchema } from "../../src/run/job/schema.ts";

/** A small job on an object store, for tests of what a backend makes of a job. */
export const smallJob = {
  input: "s3://bucket/in.jsonl",
  model: { engine: "fake" as const },
  prompt: "p",
  output: { path: "s3://bucket/out" },
  workers: { max: 2 },
};

/** The work of a job for a scheduler: all shares of a run by two workers. */
export const workOf = (job: JobInput, changes: object = {}) => ({
  job: jobSchema.parse(job),
  location: "s3://bucket/out",
  generation: 1,
  takers: 2,
  shares: [0, 1],
  program: ["sluice"],
  ...changes,
});

/** The keys of a job that are refused. */
export const refusedKeys = (job: object) =>
  jobSchema.safeParse(job).error?.issues.map(({ path }) => path.join("."));
