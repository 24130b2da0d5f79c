import { sortableId } from "../foundation/ids.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import { planPath, stdinPrefix } from "../run/directory/layout.ts";
import { locateRun } from "../run/directory/locate.ts";
import { readJson } from "../run/directory/records.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import type { JobSpec } from "../run/job/schema.ts";
import { HashedFile, writeWhole } from "../run/output/hashed-file.ts";
import { assertFree } from "../run/plan/open-run.ts";
import type { Plan } from "../run/plan/plan.ts";
import type { CliIo } from "./io.ts";

/**
 * Carries out a job with standard input, which is stored in a file of the run directory. If the job
 * is refused, the file is removed.
 *
 * @throws SluiceError `OUTPUT_OCCUPIED`, before anything is written; and errors of `action`.
 */
export async function withStdin<Result>(
  loaded: JobSpec,
  dependencies: Pick<RunDependencies, "clock" | "random" | "openStorage">,
  io: CliIo,
  action: (job: JobSpec) => Promise<Result>,
): Promise<Result> {
  const job = await spoolStdin(loaded, dependencies, io);
  try {
    return await action(job);
  } catch (error) {
    if (job !== loaded) await dropSpool(job, dependencies).catch(() => {});
    throw error;
  }
}

/**
 * Stores standard input in a file of the run directory, so that it can be read more than once: the
 * job with `-` replaced by that file. The name follows from the content, so that the same input
 * continues the same run.
 *
 * @throws SluiceError `OUTPUT_OCCUPIED`, before anything is written.
 */
async function spoolStdin(
  job: JobSpec,
  { clock, random, openStorage }: Pick<RunDependencies, "clock" | "random" | "openStorage">,
  io: CliIo,
): Promise<JobSpec> {
  if (!job.input.some(({ path }) => path === "-")) return job;
  const location = locateRun(job.output.path);
  const { directory } = location;
  const storage = runStorage(openStorage(directory));
  if (!(await storage.stat(planPath))) {
    await assertFree(storage, openStorage(location.outside), location);
  }
  const draft = `${stdinPrefix}${sortableId(clock, random)}.pending`;
  const { sha256 } = await writeWhole(await HashedFile.open(storage, draft), async (file) => {
    for await (const chunk of io.stdin as AsyncIterable<Buffer>) await file.write(chunk);
  });
  const { format = "jsonl" } = job.input.find(({ path }) => path === "-")!;
  const path = `${stdinPrefix}${sha256.slice(0, 16)}.${format}`;
  await storage.publish(draft, path);
  await storage.remove(draft);
  return {
    ...job,
    input: job.input.map((source) =>
      source.path === "-" ? { ...source, format, path: `${directory}/${path}` } : source,
    ),
  };
}

/** Removes the file if the run does not read it. */
async function dropSpool(
  { input, output }: JobSpec,
  { openStorage }: Pick<RunDependencies, "openStorage">,
): Promise<void> {
  const { directory } = locateRun(output.path);
  const storage = runStorage(openStorage(directory));
  const plan = await readJson<Plan>(storage, planPath);
  const named = plan?.job.input.map(({ path }) => path) ?? [];
  for (const { path } of input) {
    const isSpool = path.startsWith(`${directory}/${stdinPrefix}`);
    if (isSpool && !named.includes(path)) await storage.remove(path.slice(directory.length + 1));
  }
}
