import type { Storage } from "../data/storage/storage.ts";
import { type Clock, sleep } from "../foundation/clock.ts";
import { limits } from "../foundation/limits.ts";
import type { Commit } from "./attempt/commit.ts";
import { commitPath } from "./layout.ts";
import { type Plan, readPlan } from "./plan.ts";
import { readJson } from "./records.ts";
import { readManifest } from "./seal/manifest.ts";

export interface ResultsOptions {
  /** Dead letters instead of results. */
  failed: boolean;
  /** Wait for a task that is not committed yet. */
  follow: boolean;
  clock: Clock;
  /** Ends the waiting and the reading. */
  signal?: AbortSignal;
  /** Told, once a task, that results wait for it. */
  onWait?(task: number): void;
}

/** Where the results ended. */
export interface ResultsEnd {
  /** The first task without a commit; undefined when all of them were read. */
  gap: number | undefined;
  tasks: number;
}

const followPollMs = 500;

/**
 * The results of a run in input order, as the bytes of its lines, whether it goes on or is sealed.
 * Before the seal they come from the committed attempts, afterwards from what was published.
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
  const { failed, signal } = options;
  const tasks = plan.tasks.count;
  const sealed = await readManifest(storage);
  if (sealed) {
    // A retry changes what was published, never the attempts.
    const files = sealed.tasks.map(({ part, deadLetters }) => (failed ? deadLetters : part));
    for (const file of files) if (file) yield* fileChunks(storage, file.path, signal);
    if (sealed.merged && !failed) yield* fileChunks(outside, sealed.merged.path, signal);
    return { gap: undefined, tasks };
  }
  for (let task = 0; task < tasks; task++) {
    const commit = await committed(storage, plan, task, options);
    if (!commit) return { gap: task, tasks };
    const file = failed ? commit.deadLetters : commit.part;
    if (file) yield* fileChunks(storage, file.path, signal);
  }
  return { gap: undefined, tasks };
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

async function* fileChunks(
  storage: Storage,
  path: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const reader = await storage.open(path);
  try {
    for (let offset = 0; offset < reader.bytes && !signal?.aborted; ) {
      const chunk = await reader.read(offset, limits.readChunkBytes);
      yield chunk;
      offset += chunk.length;
    }
  } finally {
    await reader.close();
  }
}

/** The first lines of the results, parsed; those of committed tasks only. */
export async function firstResults(
  storage: Storage,
  outside: Storage,
  count: number,
  clock: Clock,
): Promise<unknown[]> {
  const lines: string[] = [];
  const decoder = new TextDecoder();
  let pending = "";
  for await (const chunk of resultChunks(storage, outside, {
    failed: false,
    follow: false,
    clock,
  })) {
    const parts = (pending + decoder.decode(chunk, { stream: true })).split("\n");
    pending = parts.pop()!;
    lines.push(...parts);
    if (lines.length >= count) break;
  }
  return lines.slice(0, count).map((line) => JSON.parse(line) as unknown);
}
