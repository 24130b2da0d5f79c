import { noRequests } from "../attempt/request-counts.ts";
import type { RunDependencies } from "../dependencies.ts";
import type { RunLocation } from "../directory/locate.ts";
import { runWords } from "../directory/run-storage.ts";
import type { JobSpec } from "../job/schema.ts";
import { plannedOutputFiles, planOutputs } from "../output/plan-outputs.ts";
import { plannedColumns } from "../output/planned-columns.ts";
import { eachTask, type Plan, partDigits, storeTasks, type Task } from "../plan/plan.ts";
import { type FoundInput, findInput } from "../plan/scan-input.ts";
import type { RunContext } from "../run-context.ts";
import { type RunJobOptions, runJob } from "../run-job.ts";
import type { Manifest } from "../seal/manifest.ts";
import type { RunResult } from "../status/run-result.ts";
import { factsOf } from "./corrected-rows.ts";
import type { FindTasks, RetryTasks } from "./plan-retry.ts";
import { changedInput, rescanInput } from "./rescan.ts";
import { runGeneration } from "./run-retry.ts";

/**
 * Carries out a job whose input grows: starts or continues its run, as `runJob` does, and then
 * processes what was appended to the input since: rows at the end of its files, and new files.
 * Earlier rows must be unchanged. Rows keep their numbers; the appended ones follow.
 *
 * @throws SluiceError `INPUT_CHANGED` if a processed row has changed, and errors of `runJob`.
 */
export async function runExtended(
  job: JobSpec,
  dependencies: RunDependencies,
  options: RunJobOptions,
): Promise<RunResult> {
  const standing = await runJob(job, dependencies, { ...options, skipsInputCheck: true });
  const { opened, summary } = standing;
  if (!summary.sealed) return standing;
  const { location, job: effective, context } = opened;
  const request = { where: "appended" as const, job: effective };
  const findTasks: FindTasks = (run, base, generation, uniqueId) => {
    const extension = { run, base, job: effective, location, generation, uniqueId };
    return appendedTasks(context, dependencies, extension);
  };
  const extended = await runGeneration(location, dependencies, request, options, findTasks);
  return extended ?? standing;
}

interface Extension {
  run: Plan;
  base: Manifest;
  job: JobSpec;
  location: RunLocation;
  generation: number;
  uniqueId: string;
}

async function appendedTasks(
  context: RunContext,
  { inputs }: RunDependencies,
  extension: Extension,
): Promise<RetryTasks> {
  const { storage } = context;
  const { run, base, job, generation, uniqueId } = extension;
  const found = await findInput(job, inputs);
  const { digest, modifiedDigest } = run.input;
  if (found.digest === digest && found.modifiedDigest === modifiedDigest) return { tasks: [] };
  const before = await Array.fromAsync(eachTask(storage, run));
  const rescanning = { job, planned: run.input, openFile: found.openFile };
  const { tasks, changed, appended } = await rescanInput(before, found, rescanning);
  const [slice] = [...changed.values()].flat();
  if (slice) {
    throw changedInput("it changed before the rows that were appended", {
      file: slice.file,
      line: slice.firstLine,
      hint: `failed rows that were corrected: sluice retry ${runWords(storage)} --reread`,
    });
  }
  if (appended.length === 0) return { tasks: [] };
  const { count, file, index } = await storeTasks(storage, generation, uniqueId, [
    ...tasks,
    ...appended,
  ]);
  const rows = base.rows.total + appended.reduce((sum, task) => sum + task.rows, 0);
  const columns = await plannedColumns(found.files, job, found.openFile);
  return {
    tasks: appended.map(
      (task, at): Task => ({
        ...{ ...task, task: at, of: task.task },
        replaces: noRequests,
      }),
    ),
    facts: {
      whole: { tasks: { count, file, index }, rows, partDigits: partDigits(run) },
      input: { ...run.input, ...factsOf(found), rows },
      ...(columns && { columns }),
      ...(await grownOutputs(context, found, extension, found.openFile)),
    },
  };
}

/** Result files by input or by row, including those of the new files. */
async function grownOutputs(
  context: RunContext,
  found: FoundInput,
  { run, job, location, uniqueId }: Extension,
  openFile: RunContext["openFile"],
): Promise<Pick<Plan, "outputs">> {
  const standing = new Set<string>();
  for await (const { path } of plannedOutputFiles(context.storage, run)) standing.add(path);
  const planning = { ...context, job, location, openFile, uniqueId, standing };
  const outputs = run.outputs && (await planOutputs(found.files, planning));
  return outputs ? { outputs } : {};
}
