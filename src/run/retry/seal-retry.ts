import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { addUsage } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import { addErrors, type Commit, type ErrorCounts } from "../attempt/commit.ts";
import type { DeadLetter } from "../attempt/result-lines.ts";
import { type Bill, BillTally } from "../bill/bill.ts";
import { mayRepeat, type RepeatedTask, repeatedTasks } from "../bill/repeated.ts";
import {
  commitPath,
  deadLetterPath,
  partPath,
  partWidth,
  planPathOf,
  retryPaths,
  retryReadyPath,
} from "../layout.ts";
import { readLines } from "../lines.ts";
import { resultsHoldFailed } from "../openai-batch/batch-lines.ts";
import { writeErrorFile } from "../openai-batch/error-file.ts";
import { publishedForm } from "../output/published-form.ts";
import { writeOutputs } from "../output/write-outputs.ts";
import { type Plan, type PlannedFile, readPlan, type Task, TaskTable } from "../plan.ts";
import { createOnce, readJson, recordBytes } from "../records.ts";
import type { RunContext } from "../run-context.ts";
import { committedTasks, readCommit } from "../seal/commits.ts";
import type { Manifest, ManifestTask } from "../seal/manifest.ts";
import { removeJournals, type SealOptions, writeSeal } from "../seal/seal.ts";
import { LineSink, type MergedTask, type MergePaths, mergeTask } from "./merge-task.ts";
import { type RemadeResults, remakeResults } from "./remake-results.ts";

/** The retry's part in one task of the first generation. */
interface Retried {
  task: Task;
  commit: Commit;
}

/** What a merge made, written down once all of it is on storage. */
export interface Ready {
  /** Whose merge it was. */
  merger: string;
  tasks: Record<string, MergedTask & { part: PlannedFile | null }>;
  merged: PlannedFile | null;
  /** Where results are made of the tasks' lines. */
  made?: RemadeResults;
}

/**
 * Seals a retry: merges its answers into the results as they stand, publishes them, and writes a
 * manifest of its own. Earlier generations are never edited. A kill at any point is mended by the
 * same call: until everything is merged nothing is published, and publishing twice changes nothing.
 * Who merges does so in a folder of its own, and one merge counts: what is published changes what
 * a coordinator would merge that comes back from the dead.
 */
export async function sealRetry(
  context: RunContext,
  base: Manifest,
  options: SealOptions,
): Promise<Manifest> {
  const { storage, plan } = context;
  const committed = await committedTasks(storage, plan);
  if (committed.size !== plan.tasks.count) {
    const detail = `${committed.size} of ${plan.tasks.count} tasks of the retry are committed`;
    throw new SluiceError("ROWS_UNBALANCED", detail);
  }
  const first = await readPlan(storage);
  const retried = await retriedTasks(context);
  const known = await readJson<Ready>(storage, retryReadyPath(plan.generation));
  const ready = known ?? (await makeReady(context, first, base, retried));
  await options.assertRules();
  await publish(context, first, ready, options);
  const commits = [...retried.values()].map(({ commit }) => commit);
  const repeating = new Set(commits.filter(mayRepeat).map(({ task }) => task));
  const repeated = await repeatedTasks(context, commits, repeating);
  const bill = await retryBill(context, base, commits, repeated, options);
  const manifest = await retryManifest(
    context,
    { ...base, ...(bill && { bill }) },
    ready,
    retried,
    options,
  );
  if (first.outputs) {
    // Files of their own are as they should be only once they are all written anew.
    const { tasks, columns = [] } = manifest;
    const { assertRules } = options;
    manifest.outputs = await writeOutputs(context, first, { tasks, columns, assertRules });
  }
  const sealed = await writeSeal(context, manifest);
  if (!plan.job.keepJournals) await removeJournals(context, commits, repeated);
  return sealed;
}

/** Merges, and takes what another merged that was ready first. */
async function makeReady(
  context: RunContext,
  first: Plan,
  base: Manifest,
  retried: Map<number, Retried>,
): Promise<Ready> {
  const { storage, plan } = context;
  const { isLines } = publishedForm(first);
  let ready =
    isLines && first.mergedFile !== null
      ? await mergeIntoFile(context, first, base, retried)
      : await mergeIntoParts(context, first, base, retried);
  if (!isLines) {
    const made = await remakeResults(context, first, base, ready, retried);
    ready = { ...ready, merged: made.merged, made };
  }
  const path = retryReadyPath(plan.generation);
  if (storage.createsOnce !== false) {
    return (await createOnce(storage, path, ready, ({ merger }) => merger)).record;
  }
  await storage.replace(path, recordBytes(ready));
  return ready;
}

async function retriedTasks({ storage, plan }: RunContext): Promise<Map<number, Retried>> {
  const retried = new Map<number, Retried>();
  const table = new TaskTable(storage, plan);
  try {
    for await (const task of table.all()) {
      retried.set(task.of!, { task, commit: await readCommit(storage, plan, task.task) });
    }
  } finally {
    await table.close();
  }
  return retried;
}

async function mergeIntoParts(
  { storage, plan, worker: merger }: RunContext,
  first: Plan,
  base: Manifest,
  retried: Map<number, Retried>,
): Promise<Ready> {
  const paths = retryPaths(plan.generation, merger);
  const table = new TaskTable(storage, first);
  const ready: Ready = { merger, tasks: {}, merged: null };
  const holds = resultsHoldFailed(first.job);
  try {
    for (const [of, changed] of retried) {
      const { part, source: lines = part!, deadLetters, lineCounts } = base.tasks[of]!;
      const results = readLines(storage, lines.path);
      const sink = await LineSink.open(storage, paths.part(of));
      const task = await table.task(of);
      const standing = { task, results, deadLetters, lineCounts };
      const source = { ...standing, retried: changed, resultsHoldFailed: holds };
      const merged = await mergeTask(storage, source, sink, besideOf(paths, of));
      await results.return(undefined);
      ready.tasks[of] = { ...merged, part: await sink.end() };
    }
  } finally {
    await table.close();
  }
  return ready;
}

async function mergeIntoFile(
  { storage, outside, plan, worker: merger }: RunContext,
  first: Plan,
  base: Manifest,
  retried: Map<number, Retried>,
): Promise<Ready> {
  const paths = retryPaths(plan.generation, merger);
  const results = readLines(outside, first.mergedFile!);
  const sink = await LineSink.open(storage, paths.merged);
  const table = new TaskTable(storage, first);
  const ready: Ready = { merger, tasks: {}, merged: null };
  const holds = resultsHoldFailed(first.job);
  try {
    for await (const task of table.all()) {
      const changed = retried.get(task.task);
      const { deadLetters, lineCounts } = base.tasks[task.task]!;
      if (!changed) {
        await copyLines(results, sink, base.tasks[task.task]!.results);
        continue;
      }
      const standing = { task, results, deadLetters, lineCounts };
      const source = { ...standing, retried: changed, resultsHoldFailed: holds };
      const merged = await mergeTask(storage, source, sink, besideOf(paths, task.task));
      ready.tasks[task.task] = { ...merged, part: null };
    }
  } finally {
    await results.return(undefined);
    await table.close();
  }
  return { ...ready, merged: await sink.end() };
}

function besideOf(paths: ReturnType<typeof retryPaths>, task: number): MergePaths {
  return { deadLetters: paths.deadLetters(task), lineCounts: paths.lineCounts(task) };
}

async function copyLines(
  lines: AsyncIterator<string>,
  sink: LineSink,
  count: number,
): Promise<void> {
  for (let line = 0; line < count; line++) await sink.add((await lines.next()).value!);
}

async function publish(
  { storage, outside }: RunContext,
  first: Plan,
  ready: Ready,
  { assertRules }: SealOptions,
): Promise<void> {
  const width = partWidth(first.tasks.count);
  const { isLines, ending } = publishedForm(first);
  for (const [of, part] of Object.entries(ready.made?.parts ?? {})) {
    await storage.publish(part.path, partPath(Number(of), width, ending));
  }
  for (const [of, { part, deadLetters }] of Object.entries(ready.tasks)) {
    const task = Number(of);
    if (part && isLines) await storage.publish(part.path, partPath(task, width));
    if (deadLetters) await storage.publish(deadLetters.path, deadLetterPath(task, width));
    else await storage.remove(deadLetterPath(task, width));
  }
  if (!ready.merged) return;
  const reader = await storage.open(ready.merged.path);
  const writer = await outside.writer(first.mergedFile!);
  try {
    for (let offset = 0; offset < reader.bytes; offset += limits.readChunkBytes) {
      await writer.write(await reader.read(offset, limits.readChunkBytes));
    }
    await assertRules();
    await writer.close();
  } catch (error) {
    await writer.abort();
    throw error;
  } finally {
    await reader.close();
  }
}

async function retryManifest(
  context: RunContext,
  base: Manifest,
  ready: Ready,
  retried: Map<number, Retried>,
  options: SealOptions,
): Promise<Manifest> {
  const { storage, plan, clock } = context;
  const tasks = base.tasks.map((entry) => mergedEntry(entry, plan, ready, retried));
  const sum = (key: "results" | "failed" | "filtered") =>
    tasks.reduce((all, entry) => all + (entry[key] ?? 0), 0);
  const [failed, filtered] = [sum("failed"), sum("filtered")];
  const answered = base.rows.total - failed - filtered;
  const commits = [...retried.values()].map(({ commit }) => commit);
  const planFile = await storage.read(planPathOf(plan.generation));
  const planned = {
    path: planPathOf(plan.generation),
    sha256: sha256Hex(planFile),
    bytes: planFile.length,
  };
  return {
    ...base,
    generation: plan.generation,
    software: plan.software,
    sealedAt: new Date(clock.now()).toISOString(),
    seed: plan.seed,
    retries: [...(base.retries ?? []), { generation: plan.generation, plan: planned }],
    engine: options.engine,
    rows: { ...base.rows, answered, filtered, failed, results: sum("results") },
    requests: { ...base.requests, answered: answeredRequests(base, commits) },
    usage: commits.reduce((all, { usage }) => addUsage(all, usage), base.usage),
    errors: await errorsOf(storage, tasks),
    busySeconds: commits.reduce((all, commit) => all + commit.busySeconds, base.busySeconds),
    tasks,
    ...(ready.made?.columns && { columns: ready.made.columns }),
    merged: ready.merged ? { ...ready.merged, path: base.merged!.path } : base.merged,
    ...(base.errorFile && { errorFile: await writeErrorFile(context, base.errorFile.path, tasks) }),
  };
}

/** What the run has cost with the retry; what an earlier version sealed has no bill to add to. */
async function retryBill(
  context: RunContext,
  { bill, sealedAt }: Manifest,
  commits: readonly Commit[],
  repeated: ReadonlyMap<number, RepeatedTask>,
  { prices }: SealOptions,
): Promise<Bill | undefined> {
  if (!bill) return undefined;
  const tally = new BillTally();
  for (const commit of commits) tally.add(commit);
  return tally.bill(context, repeated, prices, { bill, sealedMs: Date.parse(sealedAt) });
}

/** A row that was answered before and is now answered anew counts once. */
export function answeredRequests(base: Manifest, commits: readonly Commit[]): number {
  const { planned, answered } = base.requests;
  return Math.min(
    planned,
    commits.reduce((all, { requests }) => all + requests.answered, answered),
  );
}

function mergedEntry(
  entry: ManifestTask,
  plan: Plan,
  ready: Ready,
  retried: Map<number, Retried>,
): ManifestTask {
  const merged = ready.tasks[entry.task];
  const changed = retried.get(entry.task);
  const made = ready.made?.parts[entry.task];
  const published: ManifestTask = made
    ? { ...entry, part: { ...made, path: entry.part!.path }, encoded: made.path }
    : entry;
  if (!merged || !changed) return published;
  const { results, failed, recovered, filtered, part, deadLetters } = merged;
  const bytes = recordBytes(changed.commit);
  const commit = {
    path: commitPath(changed.task.task, plan),
    sha256: sha256Hex(bytes),
    bytes: bytes.length,
  };
  const { filtered: _filtered, lineCounts: _counts, ...rest } = published;
  return {
    ...rest,
    results,
    failed,
    ...(filtered > 0 ? { filtered } : {}),
    ...(merged.lineCounts && { lineCounts: merged.lineCounts }),
    // A retry adds neither parts nor dead letters where there were none.
    ...(entry.source ? { source: part! } : { part: part && { ...part, path: entry.part!.path } }),
    deadLetters: deadLetters && { ...deadLetters, path: entry.deadLetters!.path },
    retried: [...(entry.retried ?? []), { commit, generation: plan.generation, recovered }],
  };
}

/** Failures by code, counted from the dead letters as they stand. */
export async function errorsOf(
  storage: Storage,
  tasks: readonly ManifestTask[],
): Promise<ErrorCounts> {
  let errors: ErrorCounts = {};
  for (const { deadLetters } of tasks) {
    if (!deadLetters) continue;
    for await (const line of readLines(storage, deadLetters.path)) {
      const { code, message } = JSON.parse(line) as DeadLetter;
      errors = addErrors(errors, { [code]: { count: 1, message } });
    }
  }
  return errors;
}
