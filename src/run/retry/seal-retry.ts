import type { Column } from "../../data/columns.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { addUsage } from "../../foundation/inference.ts";
import { addErrors, type Commit, type ErrorCounts } from "../attempt/commit.ts";
import { committedTasks, readCommit } from "../attempt/commits.ts";
import { addRequestCounts, type RequestCounts } from "../attempt/request-counts.ts";
import type { DeadLetter } from "../attempt/result-lines.ts";
import { type Bill, BillTally } from "../bill/bill.ts";
import { addPaidAnswers, noPaidAnswers } from "../bill/costs.ts";
import { mayRepeat, type RepeatedTask, repeatedTasks } from "../bill/repeated.ts";
import { removeClaims } from "../claims/claims.ts";
import { type FileRecord, fileRecord } from "../directory/file-record.ts";
import { commitPath, deadLetterPath, partPath, retryPaths } from "../directory/layout.ts";
import { recordedLineBatches, recordedLines } from "../directory/lines.ts";
import { readJson, recordBytes } from "../directory/records.ts";
import { resultsHoldFailed } from "../openai-batch/batch-lines.ts";
import { writeErrorFile } from "../openai-batch/error-file.ts";
import { type Encoding, encodeFile } from "../output/encoded-file.ts";
import { HashedFile, writeWhole } from "../output/hashed-file.ts";
import { allColumns, isSameTable } from "../output/own-columns.ts";
import { mergeFile } from "../output/publish-results.ts";
import { publishedForm } from "../output/published-form.ts";
import { writeOutputs } from "../output/write-outputs.ts";
import {
  eachTask,
  type Plan,
  partDigits,
  standingPlan,
  type Task,
  TaskTable,
} from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import { findDuplicateIds, type OfIds, presentIds } from "../seal/duplicate-ids.ts";
import type { Manifest, ManifestTask } from "../seal/manifest.ts";
import {
  abandonedMeanwhile,
  planFile,
  removeJournals,
  type SealOptions,
  writeSeal,
} from "../seal/seal.ts";
import { manifestOf, readSeals } from "../seal/seals.ts";
import { letterLines, lettersFile, linesFile, mergedLines } from "../seal/task-files.ts";
import { knownCutRows } from "./cut-rows.ts";
import { endOf, type MergedTask, type MergeSource, mergeTask, nextLine } from "./merge-task.ts";

/** The retry's part in one task of the run. */
export interface Retried {
  task: Task;
  commit: Commit;
}

/** Results after a retry, in a folder of the process that made them; not published yet. */
export interface Merge {
  /** By task: those that the retry changed or added. */
  tasks: Record<string, MergedTask & { part: FileRecord | null }>;
  merged: FileRecord | null;
  /** If results are made from the tasks' lines. */
  made?: RemadeResults;
}

/**
 * Seals a retry: merges its answers into the present results, in a folder of this process, and
 * creates the seal; then the files that it names are published. Earlier generations are never
 * edited. The same call continues after a kill at any point. If several processes merge, one
 * creates the seal, and the files of the others do not count.
 */
export async function sealRetry(
  context: RunContext,
  base: Manifest,
  options: SealOptions,
): Promise<Manifest> {
  const { storage, plan } = context;
  await options.assertLeads();
  const { sealed, last, abandoned } = await readSeals(storage, plan);
  const dropped = abandoned.find(({ generation }) => generation === plan.generation);
  if (dropped) throw abandonedMeanwhile(dropped);
  if (last >= plan.generation && sealed) return await manifestOf(storage, sealed);
  const committed = await committedTasks(storage, plan);
  if (committed.size !== plan.tasks.count) {
    const detail = `${committed.size} of ${plan.tasks.count} tasks of the retry are committed`;
    throw new SluiceError("ROWS_UNBALANCED", detail);
  }
  const run = await standingPlan(storage, plan.whole ? plan.generation : base.standing);
  const retried = await retriedTasks(context);
  const merge = await mergeRetry(context, run, base, retried);
  const commits = [...retried.values()].map(({ commit }) => commit);
  const repeating = new Set(commits.filter(mayRepeat).map(({ task }) => task));
  const repeated = await repeatedTasks(context, commits, repeating);
  const bill = await retryBill(context, base, commits, repeated, options);
  const billed = { ...base, ...(bill && { bill }) };
  const manifest = await retryManifest(context, run, billed, merge, retried, options);
  await options.assertLeads();
  if (run.outputs) {
    // Files by input or by row are correct only once all of them are written again.
    const { tasks, columns = [] } = manifest;
    const { assertLeads } = options;
    manifest.outputs = await writeOutputs(context, run, { tasks, columns, assertLeads });
  }
  const standing = await writeSeal(context, manifest, base.generation);
  if (!plan.job.keepJournals) await removeJournals(context, commits, repeated);
  await removeClaims(storage, plan);
  return standing;
}

async function mergeRetry(
  context: RunContext,
  run: Plan,
  base: Manifest,
  retried: Map<number, Retried>,
): Promise<Merge> {
  const { isLines } = publishedForm(run);
  const merge =
    isLines && run.mergedFile !== null
      ? await mergeIntoFile(context, run, base, retried)
      : await mergeIntoParts(context, run, base, retried);
  if (isLines) return merge;
  const made = await remakeResults(context, run, base, merge, retried);
  return { ...merge, merged: made.merged, made };
}

async function retriedTasks({ storage, plan }: RunContext): Promise<Map<number, Retried>> {
  const retried = new Map<number, Retried>();
  for await (const task of eachTask(storage, plan)) {
    retried.set(task.of!, { task, commit: await readCommit(storage, plan, task.task) });
  }
  return retried;
}

async function mergeIntoParts(
  { storage, plan, worker }: RunContext,
  run: Plan,
  base: Manifest,
  retried: Map<number, Retried>,
): Promise<Merge> {
  const paths = retryPaths(plan.generation, worker);
  const table = new TaskTable(storage, run);
  const merge: Merge = { tasks: {}, merged: null };
  try {
    for (const [of, changed] of retried) {
      const entry = base.tasks[of];
      if (!entry) {
        merge.tasks[of] = addedTask(changed.commit);
        continue;
      }
      const results = recordedLines(storage, (await linesFile(storage, entry))!);
      const source = { task: await table.task(of), results, retried: changed };
      let merged: MergedTask;
      const fill = async (sink: HashedFile) => {
        merged = await mergeEntry(storage, { run, entry, paths }, source, sink);
        await endOf(results);
      };
      const file = await HashedFile.open(storage, paths.part(of));
      const part = await writeWhole(file, fill).finally(() => results.return(undefined));
      merge.tasks[of] = { ...merged!, part };
    }
  } finally {
    await table.close();
  }
  return merge;
}

/** Merges the retry into a task that had results before it. */
async function mergeEntry(
  storage: Storage,
  { run, entry, paths }: { run: Plan; entry: ManifestTask; paths: ReturnType<typeof retryPaths> },
  source: Pick<MergeSource, "task" | "results" | "retried">,
  sink: HashedFile,
): Promise<MergedTask> {
  const { task, lineCounts } = entry;
  // Where no other process changes them.
  const deadLetters = await lettersFile(storage, entry);
  const standing = { deadLetters, lineCounts, resultsHoldFailed: resultsHoldFailed(run.job) };
  const beside = { deadLetters: paths.deadLetters(task), lineCounts: paths.lineCounts(task) };
  return await mergeTask(storage, { ...source, ...standing }, sink, beside);
}

/** A task that the retry added: it had no results before. */
function addedTask({ rows, part, deadLetters, lineCounts }: Commit): Merge["tasks"][string] {
  const { results, failed, filtered } = rows;
  const counts = { results, failed, filtered, recovered: 0 };
  return { ...counts, deadLetters, lineCounts: lineCounts ?? null, part };
}

async function mergeIntoFile(
  { storage, outside, plan, worker }: RunContext,
  run: Plan,
  base: Manifest,
  retried: Map<number, Retried>,
): Promise<Merge> {
  const paths = retryPaths(plan.generation, worker);
  const results = mergedLines(storage, outside, base);
  const tasks: Merge["tasks"] = {};
  const fill = async (sink: HashedFile) => {
    for await (const task of eachTask(storage, run)) {
      const changed = retried.get(task.task);
      const entry = base.tasks[task.task];
      if (!entry) {
        const added = addedTask(changed!.commit);
        for await (const line of recordedLines(storage, added.part!)) await sink.add(line);
        tasks[task.task] = { ...added, part: null };
        continue;
      }
      if (!changed) {
        await copyLines(results, sink, entry.results);
        continue;
      }
      const source = { task, results, retried: changed };
      const merged = await mergeEntry(storage, { run, entry, paths }, source, sink);
      tasks[task.task] = { ...merged, part: null };
    }
    await endOf(results);
  };
  const file = await HashedFile.open(storage, paths.merged);
  const merged = await writeWhole(file, fill).finally(() => results.return(undefined));
  return { tasks, merged };
}

async function copyLines(
  lines: AsyncIterator<string>,
  sink: HashedFile,
  count: number,
): Promise<void> {
  for (let line = 0; line < count; line++) await sink.add(await nextLine(lines));
}

async function retryManifest(
  context: RunContext,
  run: Plan,
  base: Manifest,
  merge: Merge,
  retried: Map<number, Retried>,
  options: SealOptions,
): Promise<Manifest> {
  const { storage, plan, clock } = context;
  const tasks = mergedEntries(base, run, plan, merge, retried);
  const sum = (key: "rows" | "results" | "failed" | "filtered") =>
    tasks.reduce((all, entry) => all + (entry[key] ?? 0), 0);
  const [total, failed, filtered] = [sum("rows"), sum("failed"), sum("filtered")];
  const answered = total - failed - filtered;
  const commits = [...retried.values()].map(({ commit }) => commit);
  const planned = await planFile(storage, plan.generation);
  const { mergedSource: _merged, errorSource: _errors, cut: _cut, ...standing } = base;
  return {
    ...standing,
    generation: plan.generation,
    software: plan.software,
    sealedAt: new Date(clock.now()).toISOString(),
    seed: plan.seed,
    retries: [...(base.retries ?? []), { generation: plan.generation, plan: planned }],
    ...(plan.whole && { input: plan.input, standing: plan.generation }),
    engine: options.engine,
    rows: { ...base.rows, total, answered, filtered, failed, results: sum("results") },
    requests: requestsAfter(base.requests, commits),
    usage: commits.reduce((all, { usage }) => addUsage(all, usage), base.usage),
    ...(await cutAfter(storage, base, tasks, retried)),
    errors: await errorsOf(storage, tasks),
    busySeconds: commits.reduce((all, commit) => all + commit.busySeconds, base.busySeconds),
    tasks,
    ...(merge.made?.columns && { columns: merge.made.columns }),
    ...mergedFiles(base, merge),
    ...(await errorFileOf(context, base, tasks)),
    ...(plan.whole && { duplicateIds: await duplicateIds(storage, tasks) }),
  };
}

function mergedFiles(
  { merged }: Manifest,
  merge: Merge,
): Pick<Manifest, "merged" | "mergedSource"> {
  if (!merged || !merge.merged) return { merged };
  return { merged: { ...merge.merged, path: merged.path }, mergedSource: merge.merged.path };
}

async function errorFileOf(
  context: RunContext,
  { errorFile }: Manifest,
  tasks: readonly ManifestTask[],
): Promise<Pick<Manifest, "errorFile" | "errorSource">> {
  if (!errorFile) return {};
  const { storage, plan, worker } = context;
  const { errors } = retryPaths(plan.generation, worker);
  const written = await writeErrorFile({ storage, plan }, storage, errors, tasks);
  return { errorFile: { ...written, path: errorFile.path }, errorSource: errors };
}

/**
 * The cost of the run with the retry; a run sealed by an earlier version may have no bill to add
 * to.
 */
async function retryBill(
  context: RunContext,
  base: Manifest,
  commits: readonly Commit[],
  repeated: ReadonlyMap<number, RepeatedTask>,
  { prices }: SealOptions,
): Promise<Bill | undefined> {
  const { bill, sealedAt } = base;
  if (!bill) return undefined;
  const tally = new BillTally();
  for (const commit of commits) tally.add(commit);
  const { abandoned } = await readSeals(context.storage, context.plan);
  const dropped = abandoned.filter(({ generation }) => generation > base.generation);
  const lost = dropped.reduce(
    (sum, { spent = noPaidAnswers }) => addPaidAnswers(sum, spent),
    noPaidAnswers,
  );
  return tally.bill(context, repeated, prices, { bill, lost, sealedMs: Date.parse(sealedAt) });
}

/** Rows with a cut answer after a retry; unknown if earlier records were cleaned away. */
async function cutAfter(
  storage: Storage,
  base: Manifest,
  tasks: readonly ManifestTask[],
  retried: ReadonlyMap<number, Retried>,
): Promise<Pick<Manifest, "cut">> {
  if (base.cut === undefined) return {};
  let { cut } = base;
  for (const of of retried.keys()) {
    const [before = [], now] = await Promise.all(
      [base.tasks[of], tasks[of]].map((entry) => entry && knownCutRows(storage, entry)),
    );
    if (!before || !now) return {};
    cut += now.length - before.length;
  }
  return { cut };
}

/**
 * The requests of all rows after a retry: its counts replace the earlier ones of its rows, so that
 * each row counts once.
 */
export function requestsAfter(before: RequestCounts, commits: Iterable<Commit>): RequestCounts {
  let after = before;
  for (const { requests, replaces } of commits) {
    if (replaces) {
      after = addRequestCounts(addRequestCounts(after, requests), replaces, -1);
    } else {
      // Earlier versions lacked it, and added up answers as far as requests were planned.
      const answered = Math.min(after.planned, after.answered + requests.answered);
      after = { ...after, answered };
    }
  }
  return after;
}

/** All tasks after the retry; those that it added come last. */
function mergedEntries(
  base: Manifest,
  run: Plan,
  plan: Plan,
  merge: Merge,
  retried: Map<number, Retried>,
): ManifestTask[] {
  const changed = base.tasks.map((entry) => mergedEntry(entry, plan, merge, retried));
  const added: ManifestTask[] = [];
  for (let of = base.tasks.length; of < run.tasks.count; of++) {
    added.push(addedEntry(of, run, plan, merge, retried.get(of)!));
  }
  return [...changed, ...added];
}

function mergedEntry(
  entry: ManifestTask,
  plan: Plan,
  merge: Merge,
  retried: Map<number, Retried>,
): ManifestTask {
  const merged = merge.tasks[entry.task];
  const changed = retried.get(entry.task);
  const made = merge.made?.parts[entry.task];
  const published: ManifestTask = made
    ? { ...entry, part: { ...made, path: entry.part!.path }, encoded: made.path }
    : entry;
  if (!merged || !changed) return published;
  const { results, failed, recovered, filtered, part, deadLetters } = merged;
  const { filtered: _1, lineCounts: _2, source: _3, letters: _4, ...rest } = published;
  return {
    ...rest,
    results,
    failed,
    ...(filtered > 0 ? { filtered } : {}),
    ...(merged.lineCounts && { lineCounts: merged.lineCounts }),
    ...(part && { source: part }),
    // A retry adds neither parts nor dead letters if there were none.
    ...(part && entry.part && !made && { part: { ...part, path: entry.part.path } }),
    deadLetters: deadLetters && { ...deadLetters, path: entry.deadLetters!.path },
    ...(deadLetters && { letters: deadLetters.path }),
    retried: [
      ...(entry.retried ?? []),
      { commit: commitFile(changed, plan), generation: plan.generation, recovered },
    ],
  };
}

function addedEntry(of: number, run: Plan, plan: Plan, merge: Merge, added: Retried): ManifestTask {
  const { results, failed, filtered, part, deadLetters, lineCounts } = merge.tasks[of]!;
  const made = merge.made?.parts[of];
  const digits = partDigits(run);
  const { isLines, isParts, ending } = publishedForm(run);
  const published = made ?? (isLines && isParts ? part : null);
  return {
    task: of,
    generation: plan.generation,
    rows: added.commit.rows.total,
    results,
    failed,
    attempt: added.commit.attempt,
    commit: commitFile(added, plan),
    part: published && { ...published, path: partPath(of, digits, ending) },
    ...(made && { encoded: made.path }),
    ...(part && { source: part }),
    ...(filtered > 0 && { filtered }),
    ...(lineCounts && { lineCounts }),
    deadLetters: deadLetters && { ...deadLetters, path: deadLetterPath(of, digits) },
    ...(deadLetters && { letters: deadLetters.path }),
  };
}

function commitFile({ task, commit }: Retried, plan: Plan): FileRecord {
  return fileRecord(commitPath(task.task, plan), recordBytes(commit));
}

async function duplicateIds(
  storage: Storage,
  tasks: readonly ManifestTask[],
): Promise<Manifest["duplicateIds"]> {
  const commits: OfIds[][] = [];
  for (const { commit, retried = [] } of tasks) {
    const files = [commit, ...retried.map((retry) => retry.commit)];
    const read = files.map(async ({ path }) => {
      const { ids, task, generation } = (await readJson<Commit>(storage, path))!;
      return { ids, task, generation };
    });
    commits.push(await Promise.all(read));
  }
  const files = await presentIds(storage, commits);
  return files.length === 0 ? null : await findDuplicateIds(storage, files);
}

/** Failures by code, counted from the present dead letters. */
export async function errorsOf(
  storage: Storage,
  tasks: readonly ManifestTask[],
): Promise<ErrorCounts> {
  let errors: ErrorCounts = {};
  for (const task of tasks) {
    for await (const line of letterLines(storage, task)) {
      const { code, message, hint } = JSON.parse(line) as DeadLetter;
      errors = addErrors(errors, { [code]: { count: 1, message, hint } });
    }
  }
  return errors;
}

/** Results made again from lines after a retry; not published yet. */
interface RemadeResults {
  /** By task: those whose rows changed; all tasks, if there are new columns. */
  parts: Record<string, FileRecord>;
  merged: FileRecord | null;
  columns?: readonly Column[];
}

/** What a retry merged, as far as results are made from it. */
interface MergedLines {
  tasks: Record<string, { part: FileRecord | null }>;
}

/** Makes results from the lines after a retry, in the retry's own folder. */
async function remakeResults(
  context: RunContext,
  first: Plan,
  base: Manifest,
  lines: MergedLines,
  retried: ReadonlyMap<number, { commit: Commit }>,
): Promise<RemadeResults> {
  const { storage, plan, worker } = context;
  const { format, ending, needsColumns } = publishedForm(first);
  const paths = retryPaths(plan.generation, worker);
  const files = [...retried.values()].map(({ commit }) => commit.columns);
  const before = base.columns ?? [];
  const columns = needsColumns ? (await allColumns(storage, files, before)).columns : before;
  const encoding: Encoding = { format, columns };
  const made: RemadeResults = { parts: {}, merged: null, ...(needsColumns && { columns }) };
  const tasks = Array.from({ length: first.tasks.count }, (_, task) => ({
    task,
    source: lines.tasks[task]?.part ?? base.tasks[task]!.source!,
  }));
  if (first.outputs) return made;
  if (first.mergedFile !== null) {
    const path = paths.encodedMerged(ending);
    const source = { tasks, encoding, assertLeads: async () => {} };
    return { ...made, merged: await mergeFile(storage, storage, path, source) };
  }
  const isSame = isSameTable(format, before, columns);
  for (const { task, source } of tasks) {
    if (isSame && !lines.tasks[task]) continue;
    const path = paths.encoded(task, ending);
    made.parts[task] = await encodeFile(
      storage,
      path,
      recordedLineBatches(storage, source),
      encoding,
    );
  }
  return made;
}
