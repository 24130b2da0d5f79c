import type { Storage } from "../../data/storage/storage.ts";
import { type Clock, sleep } from "../../foundation/clock.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { withoutSpecials } from "../../foundation/exact-json.ts";
import { linesOfChunks } from "../../foundation/lines.ts";
import type { Commit } from "../attempt/commit.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { commitPath } from "../directory/layout.ts";
import { fileChunks, readLines } from "../directory/lines.ts";
import { readJson } from "../directory/records.ts";
import { publishedForm } from "../output/published-form.ts";
import { type Plan, readPlan } from "../plan/plan.ts";
import type { Manifest } from "../seal/manifest.ts";
import { readManifest } from "../seal/seals.ts";
import { mergedLines, taskChunks } from "../seal/task-files.ts";

export interface ResultsOptions {
  failed: boolean;
  /** Waits for a task that is not committed yet. */
  follow: boolean;
  clock: Clock;
  /** Ends the waiting and the reading. */
  signal?: AbortSignal;
  /** Keeps NaN and infinities as Sluice writes them in lines; otherwise they become null. */
  keepsSpecials?: boolean;
  /** Called once for each task that results wait for. */
  onWait?(task: number): void;
}

export interface ResultsEnd {
  /** The first task without a commit; undefined if all were read. */
  gap: number | undefined;
  tasks: number;
}

const followPollMs = 500;

/**
 * The results of a run in input order, as the bytes of its lines, before or after its seal. Before
 * the seal they come from the committed attempts, afterwards from the published files.
 *
 * @throws SluiceError `NOT_A_RUN`, `RUN_DAMAGED`.
 * @example
 * for await (const chunk of resultChunks(storage, outside, options)) stdout.write(chunk);
 */
export async function* resultChunks(
  storage: Storage,
  outside: Storage,
  options: ResultsOptions,
): AsyncGenerator<Uint8Array, ResultsEnd> {
  const plan = await readPlan(storage);
  const chunks = storedChunks(storage, outside, plan, options);
  if (options.failed || options.keepsSpecials || publishedForm(plan).isLines) return yield* chunks;
  let next = await chunks.next();
  const read = async function* () {
    for (; !next.done; next = await chunks.next()) yield next.value;
  };
  try {
    for await (const line of linesOfChunks(read())) yield Buffer.from(`${withoutSpecials(line)}\n`);
    return next.value as ResultsEnd;
  } finally {
    // A reader may leave in the middle: a file would stay open.
    await chunks.return(next.value as ResultsEnd);
  }
}

async function* storedChunks(
  storage: Storage,
  outside: Storage,
  plan: Plan,
  options: ResultsOptions,
): AsyncGenerator<Uint8Array, ResultsEnd> {
  const { failed, signal } = options;
  const tasks = plan.tasks.count;
  const sealed = await readManifest(storage);
  if (sealed) {
    yield* publishedChunks(storage, outside, sealed, { task: 0, bytes: 0 }, options);
    return { gap: undefined, tasks };
  }
  for (let task = 0; task < tasks; task++) {
    const commit = await committed(storage, plan, task, options);
    if (!commit) return { gap: task, tasks };
    const file = failed ? commit.deadLetters : commit.part;
    let bytes = 0;
    try {
      if (!file) continue;
      for await (const chunk of fileChunks(storage, file.path, signal)) {
        yield chunk;
        bytes += chunk.length;
      }
    } catch (error) {
      const isGone = asSluiceError(error).code === "NOT_FOUND";
      const cleaned = isGone ? await readManifest(storage) : undefined;
      if (!cleaned) throw error;
      yield* publishedChunks(storage, outside, cleaned, { task, bytes }, options);
      break;
    }
  }
  return { gap: undefined, tasks };
}

/**
 * The results of a sealed run from a byte of one task on: a retry has changed the published files.
 */
async function* publishedChunks(
  storage: Storage,
  outside: Storage,
  manifest: Manifest,
  first: { task: number; bytes: number },
  { failed, signal }: ResultsOptions,
): AsyncGenerator<Uint8Array> {
  const { tasks, merged } = manifest;
  const { isLines } = publishedForm(await readPlan(storage));
  if (failed || !merged || !isLines) {
    let start = first.bytes;
    for (const task of tasks.slice(first.task)) {
      yield* taskChunks(storage, task, { failed, isPartOfLines: isLines, start }, signal);
      start = 0;
    }
    return;
  }
  let earlier = tasks.slice(0, first.task).reduce((sum, { results }) => sum + results, 0);
  let left = first.bytes;
  // As parts are read: without a look at checksums, which `verify` compares.
  const linesOf = (place: Storage, { path }: FileRecord) => readLines(place, path);
  for await (const line of mergedLines(storage, outside, manifest, linesOf)) {
    if (signal?.aborted) return;
    if (earlier-- > 0) continue;
    const bytes = Buffer.from(`${line}\n`);
    if (bytes.length > left) yield bytes.subarray(left);
    left = Math.max(0, left - bytes.length);
  }
}

async function committed(
  storage: Storage,
  plan: Plan,
  task: number,
  { follow, clock, signal, onWait }: ResultsOptions,
): Promise<Commit | undefined> {
  for (let looks = 0; !signal?.aborted; looks++) {
    const commit = await readJson<Commit>(storage, commitPath(task, plan));
    if (commit || !follow) return commit;
    if (looks === 0) onWait?.(task);
    await sleep(clock, followPollMs, signal).catch(() => {});
  }
  return undefined;
}

/** The first lines of the results, parsed; only of committed tasks. */
export async function firstResults(
  storage: Storage,
  outside: Storage,
  count: number,
  clock: Clock,
): Promise<unknown[]> {
  const found: unknown[] = [];
  const chunks = resultChunks(storage, outside, { failed: false, follow: false, clock });
  for await (const line of linesOfChunks(chunks)) {
    if (found.length >= count) break;
    found.push(JSON.parse(line));
  }
  return found;
}
