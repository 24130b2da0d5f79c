import { removeAll } from "../../data/storage/remove-all.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { eachIndex } from "../../foundation/index-set.ts";
import { type AttemptCounts, addCounts, type Commit, noCounts } from "../attempt/commit.ts";
import { committedTasks, readStoredCommits, type StoredCommit } from "../attempt/commits.ts";
import { publishTask } from "../attempt/publish.ts";
import { BillTally } from "../bill/bill.ts";
import type { Prices } from "../bill/costs.ts";
import { mayRepeat, type RepeatedTask, repeatedTasks } from "../bill/repeated.ts";
import { removeClaims } from "../claims/claims.ts";
import { type FileRecord, fileRecord, storeFile } from "../directory/file-record.ts";
import {
  attemptPaths,
  commitPath,
  deadLetterPath,
  partPath,
  partPrefix,
  partWidth,
  planPathOf,
  writtenManifestPath,
} from "../directory/layout.ts";
import { writeErrorFile } from "../openai-batch/error-file.ts";
import {
  type EncodedTask,
  type MadeResults,
  mergeParts,
  publishResults,
} from "../output/publish-results.ts";
import { publishedForm } from "../output/published-form.ts";
import { eachTask, type Task } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import { findDuplicateIds } from "./duplicate-ids.ts";
import type { Manifest, ManifestTask } from "./manifest.ts";
import { filesAtOnce, publishNewestSeal, publishSeal, type ViewLook } from "./publish-seal.ts";
import { endGeneration, manifestOf, type Seal } from "./seals.ts";

export interface SealOptions {
  engine: Manifest["engine"];
  /** How the views of an already sealed run are checked; default: by size. */
  look?: ViewLook;
  /** Prices of tokens, for the bill; default: the bill names no money. */
  prices?: Prices;
  /** Called before anything is published, and right before the seal; throws to prevent it. */
  assertLeads(): Promise<void>;
}

/**
 * Seals a run whose tasks are all committed: checks that every planned row is in exactly one
 * commit, publishes, and creates the seal. Repetition changes nothing.
 *
 * @returns the manifest, or the present one if the run was already sealed.
 * @throws SluiceError `ROWS_UNBALANCED` if rows are missing, `RUN_DAMAGED` if commits are damaged.
 */
export async function sealRun(context: RunContext, options: SealOptions): Promise<Manifest> {
  const { storage, plan } = context;
  await options.assertLeads();
  // Before this process led, others may have sealed the run, and a retry changed its parts.
  const standing = await publishNewestSeal(context, plan, options.look ?? "sizes");
  if (standing) return standing;
  const gathered = await gather(context).catch((error: unknown) => explainMissing(context, error));
  if (gathered.counts.rows.total !== plan.rows) {
    const { total } = gathered.counts.rows;
    throw new SluiceError("ROWS_UNBALANCED", `${plan.rows} rows planned, ${total} committed`);
  }
  const repeated = await repeatedTasks(context, gathered.tasks, gathered.mayRepeat);
  const { invalid: _, ...counts } = gathered.counts;
  const manifest: Manifest = {
    format: 1,
    runId: plan.runId,
    generation: plan.generation,
    software: plan.software,
    name: plan.job.name ?? null,
    sealedAt: new Date(context.clock.now()).toISOString(),
    seed: plan.seed,
    plan: await planFile(storage, plan.generation),
    input: plan.input,
    engine: options.engine,
    ...counts,
    busySeconds: gathered.busySeconds,
    bill: await gathered.bill.bill(context, repeated, options.prices),
    tasks: gathered.tasks,
    ...(await results(context, gathered, options)),
    ...(plan.errorFile === undefined
      ? {}
      : {
          errorFile: await writeErrorFile(context, context.outside, plan.errorFile, gathered.tasks),
        }),
    duplicateIds: gathered.ids.length > 0 ? await findDuplicateIds(storage, gathered.ids) : null,
  };
  await options.assertLeads();
  const sealed = await writeSeal(context, manifest, null);
  if (!plan.job.keepJournals) await removeJournals(context, gathered.tasks, repeated);
  await removeClaims(storage, plan);
  return sealed;
}

/** Files that are published beside the parts, or instead of them. */
async function results(
  context: RunContext,
  { tasks, encoded }: Gathered,
  { assertLeads }: SealOptions,
): Promise<MadeResults> {
  const { plan } = context;
  if (encoded) return await publishResults(context, tasks, encoded, assertLeads);
  if (plan.mergedFile === null) return { merged: null };
  const { storage, outside } = context;
  return { merged: await mergeParts(storage, outside, plan.mergedFile, { tasks, assertLeads }) };
}

/**
 * @throws SluiceError `ROWS_UNBALANCED` if tasks lack their commit; else the error of the attempt.
 */
async function explainMissing({ storage, plan }: RunContext, error: unknown): Promise<never> {
  const committed = await committedTasks(storage, plan);
  if (committed.size === plan.tasks.count) throw error;
  const detail = `${committed.size} of ${plan.tasks.count} tasks are committed`;
  throw new SluiceError("ROWS_UNBALANCED", detail, { cause: error });
}

/**
 * Creates the seal of a generation, with its manifest, and publishes the manifest's files.
 *
 * @param base the generation that a retry builds on; null if the results are published already.
 * @returns the manifest that stands: another process may have sealed the generation meanwhile.
 * @throws SluiceError `COORDINATOR_LOST` if the generation was abandoned.
 */
export async function writeSeal(
  context: RunContext,
  manifest: Manifest,
  base: number | null,
): Promise<Manifest> {
  const { storage, worker: by } = context;
  const { runId, generation } = manifest;
  const file = await storeFile(storage, writtenManifestPath(manifest, by), manifestBytes(manifest));
  const { standing: planned } = manifest;
  const own: Seal = {
    runId,
    generation,
    end: "sealed",
    base,
    by,
    manifest: file,
    ...(planned !== undefined && { standing: planned }),
  };
  const seal = await endGeneration(storage, own);
  if (seal.end === "abandoned") throw abandonedMeanwhile(seal);
  const standing = seal.by === by ? manifest : await manifestOf(storage, seal);
  await publishSeal(context, seal, standing, base === null ? "sizes" : "contents");
  return standing;
}

export function abandonedMeanwhile({ generation }: Pick<Seal, "generation">): SluiceError {
  return new SluiceError("COORDINATOR_LOST", `retry ${generation} was abandoned meanwhile`);
}

export async function planFile(storage: Storage, generation: number): Promise<FileRecord> {
  const path = planPathOf(generation);
  return fileRecord(path, await storage.read(path));
}

function manifestBytes(manifest: Manifest): Buffer {
  return Buffer.from(`${JSON.stringify(manifest, null, 1)}\n`);
}

interface Gathered {
  counts: AttemptCounts;
  busySeconds: number;
  bill: BillTally;
  tasks: ManifestTask[];
  ids: FileRecord[];
  /** If results are made from the attempts' lines: the parts made so far. */
  encoded: EncodedTask[] | undefined;
  /** Tasks that may have had several attempts, according to their commits. */
  mayRepeat: Set<number>;
}

async function gather(context: RunContext): Promise<Gathered> {
  const { plan, storage } = context;
  const gathered: Gathered = {
    counts: structuredClone(noCounts),
    busySeconds: 0,
    bill: new BillTally(),
    tasks: [],
    ids: [],
    encoded: publishedForm(plan).isLines ? undefined : [],
    mayRepeat: new Set(),
  };
  const published = await publishedParts(context);
  const publishing: Promise<void>[] = [];
  const commits = readStoredCommits(
    storage,
    plan,
    eachIndex([{ first: 0, last: plan.tasks.count - 1 }]),
  );
  for await (const task of eachTask(storage, plan)) {
    const stored: StoredCommit = (await commits.next()).value;
    const { commit } = stored;
    assertBalanced(commit, task);
    const entry = manifestTask(context, stored);
    if (commit.deadLetters || (entry.part && published.get(entry.part.path) !== entry.part.bytes)) {
      const publication = publishTask(context, commit);
      // Awaited below; until then a failure must not count as unhandled.
      publication.catch(() => {});
      publishing.push(publication);
    }
    if (publishing.length >= filesAtOnce) await Promise.all(publishing.splice(0));
    gathered.counts = addCounts(gathered.counts, commit);
    gathered.busySeconds += commit.busySeconds;
    gathered.bill.add(commit);
    gathered.tasks.push(entry);
    const { task: number, attempt, published: own, columns } = commit;
    gathered.encoded?.push({ task: number, attempt, published: own, columns });
    if (commit.ids) gathered.ids.push(commit.ids);
    if (mayRepeat(commit)) gathered.mayRepeat.add(commit.task);
  }
  await Promise.all(publishing);
  return gathered;
}

/**
 * Bytes of the parts under their published names. A part with the right length is the committed
 * one, because the commit came before the name; the seal, created beside them, makes their names
 * durable. If two attempts may each believe that theirs is the commit, no part counts.
 */
async function publishedParts({ storage, plan }: RunContext): Promise<Map<string, number>> {
  const parts = new Map<string, number>();
  const { isLines, isParts } = publishedForm(plan);
  if (!isLines || !isParts || storage.createsOnce === false) return parts;
  for await (const { path, bytes } of storage.list(partPrefix)) parts.set(path, bytes);
  return parts;
}

function assertBalanced({ rows }: Commit, { task, rows: all, onlyRows = all }: Task): void {
  const outcomes = rows.answered + rows.filtered + rows.failed;
  if (outcomes === rows.total && rows.total === onlyRows) return;
  const detail = `task ${task}: ${onlyRows} rows planned, ${outcomes} outcomes committed`;
  throw new SluiceError("ROWS_UNBALANCED", detail);
}

function manifestTask({ plan }: RunContext, { commit, bytes }: StoredCommit): ManifestTask {
  const { task, rows, attempt, part, lineCounts, deadLetters } = commit;
  const width = partWidth(plan.tasks.count);
  const { isLines, isParts } = publishedForm(plan);
  return {
    task,
    rows: rows.total,
    results: rows.results,
    failed: rows.failed,
    attempt,
    commit: fileRecord(commitPath(task, plan), bytes),
    part: isLines && isParts ? { ...part, path: partPath(task, width) } : null,
    source: part,
    ...(rows.filtered > 0 ? { filtered: rows.filtered } : {}),
    ...(lineCounts && { lineCounts }),
    deadLetters: deadLetters && { ...deadLetters, path: deadLetterPath(task, width) },
    ...(deadLetters && { letters: deadLetters.path }),
  };
}

/**
 * A sealed run no longer needs journals: its parts hold every answer.
 *
 * @param committed all tasks, with the attempts of their commits.
 */
export async function removeJournals(
  { storage, plan }: RunContext,
  committed: Iterable<Pick<Commit, "task" | "attempt">>,
  repeated: ReadonlyMap<number, RepeatedTask>,
): Promise<void> {
  await removeAll(storage, [...journals()]);

  function* journals(): Generator<string> {
    for (const { task, attempt } of committed) {
      for (const id of repeated.get(task)?.attempts ?? [attempt]) {
        yield attemptPaths(task, plan, id).journal;
      }
    }
  }
}
