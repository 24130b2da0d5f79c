import { SluiceError } from "../../foundation/errors.ts";
import { digestOf, sha256Hex, sha256Stream } from "../../foundation/hashing.ts";
import type { Json } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { type AttemptCounts, addCounts, type Commit, noCounts } from "../attempt/commit.ts";
import { publishTask } from "../attempt/publish.ts";
import {
  attemptPrefix,
  commitPath,
  deadLetterPath,
  manifestPathOf,
  partPath,
  partWidth,
  planPathOf,
  successPath,
} from "../layout.ts";
import { type PlannedFile, type Task, TaskTable } from "../plan.ts";
import { createOnce, recordBytes } from "../records.ts";
import type { RunContext } from "../run-context.ts";
import { committedTasks, readCommits } from "./commits.ts";
import { findDuplicateIds } from "./duplicate-ids.ts";
import type { Manifest, ManifestTask, Success } from "./manifest.ts";

export interface SealOptions {
  engine: Manifest["engine"] | { name: string; choices: Record<string, Json> };
  /** Called before anything is published, and right before the seal; throws to prevent it. */
  assertRules(): Promise<void>;
}

/**
 * Seals a run whose tasks are all committed: checks that every planned row is in exactly one
 * commit, publishes, and writes the manifest and then `_SUCCESS`. Doing it twice changes nothing.
 *
 * @throws SluiceError `ROWS_UNBALANCED` when rows are missing, `RUN_DAMAGED` when commits are.
 */
export async function sealRun(context: RunContext, options: SealOptions): Promise<Manifest> {
  const { storage, plan } = context;
  const committed = await committedTasks(storage, plan);
  if (committed.size !== plan.tasks.count) {
    throw new SluiceError(
      "ROWS_UNBALANCED",
      `${committed.size} of ${plan.tasks.count} tasks are committed`,
    );
  }
  await options.assertRules();
  const gathered = await gather(context);
  if (gathered.counts.rows.total !== plan.rows) {
    const { total } = gathered.counts.rows;
    throw new SluiceError("ROWS_UNBALANCED", `${plan.rows} rows planned, ${total} committed`);
  }
  const planFile = await storage.read(planPathOf(plan.generation));
  const manifest: Manifest = {
    format: 1,
    runId: plan.runId,
    generation: plan.generation,
    software: plan.software,
    name: plan.job.name ?? null,
    sealedAt: new Date(context.clock.now()).toISOString(),
    seed: plan.seed,
    plan: {
      path: planPathOf(plan.generation),
      sha256: sha256Hex(planFile),
      bytes: planFile.length,
    },
    input: plan.input,
    engine: options.engine,
    ...gathered.counts,
    busySeconds: gathered.busySeconds,
    tasks: gathered.tasks,
    merged: plan.mergedFile === null ? null : await mergeParts(context, plan.mergedFile),
    duplicateIds: gathered.ids.length > 0 ? await findDuplicateIds(storage, gathered.ids) : null,
  };
  await options.assertRules();
  const sealed = await writeSeal(context, manifest);
  if (!plan.job.keepJournals) await removeJournals(context);
  return sealed;
}

/**
 * Writes the manifest, and last the `_SUCCESS` that vouches for it. The manifest of a generation is
 * made once: a coordinator that comes back from the dead must not put its own in the place of one
 * that is vouched for already, nor take a later generation's `_SUCCESS` back.
 *
 * @returns the manifest that stands.
 */
export async function writeSeal({ storage }: RunContext, manifest: Manifest): Promise<Manifest> {
  const { generation } = manifest;
  const path = manifestPathOf(generation);
  const { won, record } = await createOnce(storage, path, manifest, digestOf, manifestBytes);
  const sha256 = sha256Hex(won ? manifestBytes(manifest) : await storage.read(path));
  const success: Success = { generation, manifest: path, sha256 };
  if (generation > 1) await storage.replace(successPath, recordBytes(success));
  else await createOnce(storage, successPath, success, (it) => it.sha256);
  return record;
}

function manifestBytes(manifest: Manifest): Buffer {
  return Buffer.from(`${JSON.stringify(manifest, null, 1)}\n`);
}

interface Gathered {
  counts: AttemptCounts;
  busySeconds: number;
  tasks: ManifestTask[];
  ids: PlannedFile[];
}

/** Files published or removed at once: most of the time is a wait for the disk. */
const filesAtOnce = 32;

async function gather(context: RunContext): Promise<Gathered> {
  const { plan, storage } = context;
  const gathered: Gathered = {
    counts: structuredClone(noCounts),
    busySeconds: 0,
    tasks: [],
    ids: [],
  };
  const publishing: Promise<void>[] = [];
  const commits = readCommits(storage, plan, allTasks(plan.tasks.count));
  for await (const task of plannedTasks(context)) {
    const commit: Commit = (await commits.next()).value;
    assertBalanced(commit, task);
    const published = publishTask(context, commit);
    // Awaited below; until then a failure must not count as unhandled.
    published.catch(() => {});
    publishing.push(published);
    if (publishing.length >= filesAtOnce) await Promise.all(publishing.splice(0));
    gathered.counts = addCounts(gathered.counts, commit);
    gathered.busySeconds += commit.busySeconds;
    gathered.tasks.push(manifestTask(context, commit));
    if (commit.ids) gathered.ids.push(commit.ids);
  }
  await Promise.all(publishing);
  return gathered;
}

/** The tasks of a plan, in order. */
export function* allTasks(count: number): Generator<number> {
  for (let task = 0; task < count; task++) yield task;
}

async function* plannedTasks({ storage, plan }: RunContext): AsyncGenerator<Task> {
  const table = new TaskTable(storage, plan);
  try {
    yield* table.all();
  } finally {
    await table.close();
  }
}

function assertBalanced({ rows }: Commit, { task, rows: all, onlyRows = all }: Task): void {
  const outcomes = rows.answered + rows.filtered + rows.failed;
  if (outcomes === rows.total && rows.total === onlyRows) return;
  const detail = `task ${task}: ${onlyRows} rows planned, ${outcomes} outcomes committed`;
  throw new SluiceError("ROWS_UNBALANCED", detail);
}

function manifestTask({ plan }: RunContext, commit: Commit): ManifestTask {
  const { task, rows, attempt, part, deadLetters } = commit;
  const width = partWidth(plan.tasks.count);
  const bytes = recordBytes(commit);
  return {
    task,
    rows: rows.total,
    results: rows.results,
    failed: rows.failed,
    attempt,
    commit: { path: commitPath(task, plan), sha256: sha256Hex(bytes), bytes: bytes.length },
    part: plan.mergedFile === null ? { ...part, path: partPath(task, width) } : null,
    deadLetters: deadLetters && { ...deadLetters, path: deadLetterPath(task, width) },
  };
}

/** Joins the parts of all tasks, in order, into the one file that was asked for. */
async function mergeParts(context: RunContext, name: string): Promise<PlannedFile> {
  const { storage, outside, plan } = context;
  const writer = await outside.writer(name);
  const digest = sha256Stream();
  let bytes = 0;
  try {
    for await (const commit of readCommits(storage, plan, allTasks(plan.tasks.count))) {
      const reader = await storage.open(commit.part.path);
      try {
        for (let offset = 0; offset < reader.bytes; offset += limits.readChunkBytes) {
          const chunk = await reader.read(offset, limits.readChunkBytes);
          digest.update(chunk);
          bytes += chunk.length;
          await writer.write(chunk);
        }
      } finally {
        await reader.close();
      }
    }
    await writer.close();
  } catch (error) {
    await writer.abort();
    throw error;
  }
  return { path: name, sha256: digest.digest("hex"), bytes };
}

/** Journals have served once the run is sealed: its parts hold every answer. */
export async function removeJournals({ storage, plan }: RunContext): Promise<void> {
  const prefix = `${attemptPrefix}${plan.runId.toLowerCase()}/g${plan.generation}/`;
  const journals: string[] = [];
  for await (const { path } of storage.list(prefix)) {
    if (path.endsWith("/journal.jsonl")) journals.push(path);
  }
  while (journals.length > 0) {
    await Promise.all(journals.splice(-filesAtOnce).map((path) => storage.remove(path)));
  }
}
