import { bytesReader } from "../../src/data/storage/bytes-reader.ts";
import { memoryStorage } from "../../src/data/storage/memory.ts";
import type { RandomReader, Storage } from "../../src/data/storage/storage.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import { locateRun } from "../../src/run/directory/locate.ts";
import { type JobInput, type JobSpec, jobSchema } from "../../src/run/job/schema.ts";
import { type Plan, type Task, TaskTable } from "../../src/run/plan/plan.ts";
import { type FoundInput, scanInput } from "../../src/run/plan/scan-input.ts";
import type { RunContext } from "../../src/run/run-context.ts";
import { type VirtualClock, virtualClock } from "../fakes/virtual-clock.ts";

/** Where the input of these tests seems to lie. */
export const inputPath = "/in/rows.jsonl";

/** A job over `inputPath` with the fake engine. */
export function jobOf(changes: Partial<JobInput> = {}): JobSpec {
  return jobSchema.parse({
    input: { path: inputPath },
    model: { engine: "fake" },
    prompt: "Say {{ text }}",
    output: { path: "/run/out" },
    ...changes,
  });
}

/** Opens files whose contents are given by path. */
export function filesInMemory(files: Record<string, string>) {
  return async (path: string): Promise<RandomReader> => {
    const text = files[path];
    if (text === undefined) throw new SluiceError("NOT_FOUND", "", { file: path });
    return bytesReader(Buffer.from(text));
  };
}

export interface PlannedRun {
  context: RunContext;
  clock: VirtualClock;
  storage: Storage;
  plan: Plan;
  /** The contents of input files; changing them changes the input. */
  files: Record<string, string>;
  task(number: number): Promise<Task>;
  /** A stored text. */
  text(path: string): Promise<string>;
  /** The lines of a stored text, parsed. */
  lines(path: string): Promise<Record<string, unknown>[]>;
  /** Paths that begin with `prefix`. */
  paths(prefix?: string): Promise<string[]>;
}

/** A run in memory, planned over rows and not begun. */
export async function plannedRun(
  rows: readonly string[],
  changes: Partial<JobInput> = {},
  storage: Storage = memoryStorage(),
): Promise<PlannedRun> {
  const job = jobOf(changes);
  const files = { [inputPath]: rows.map((row) => `${row}\n`).join("") };
  const clock = virtualClock();
  const openFile = filesInMemory(files);
  const found = foundIn(files, job.input[0]?.id);
  const scan = { storage, job, seed: 5, workers: 1, uniqueId: "fixture", openFile, onEvent() {} };
  const { tasks, input } = await scanInput(found, scan, job.shard.rows ?? 1000);
  const { file, index, count } = tasks;
  const plan: Plan = {
    format: 1,
    runId: "20260101T000000Z",
    generation: 1,
    software: "test",
    createdAt: new Date(clock.now()).toISOString(),
    job,
    seed: 5,
    tasks: { count, file, index },
    rows: tasks.rows,
    input,
    order: job.order === "prefix" ? "prefix" : "input",
    mergedFile: locateRun(job.output.path).mergedFile,
  };
  const random = seededRandom(9);
  const context: RunContext = {
    storage,
    outside: memoryStorage(),
    openStorage: () => memoryStorage(),
    plan,
    openFile,
    clock,
    random,
    logger: silentLogger,
    worker: "worker-1",
  };
  const text = async (path: string) => Buffer.from(await storage.read(path)).toString();
  return {
    context,
    clock,
    storage,
    plan,
    files,
    task: (number) => new TaskTable(storage, plan).task(number),
    text,
    lines: async (path) => linesOf(await text(path)),
    paths: (prefix = "") => pathsOf(storage, prefix),
  };
}

/** The same run as another attempt or worker sees it, with its own plan or storage. */
export function withContext(run: PlannedRun, changes: Partial<RunContext>): RunContext {
  return { ...run.context, ...changes };
}

/** What listing the input would find. */
export function foundIn(files: Record<string, string>, id?: string): FoundInput {
  const found = Object.entries(files).map(([path, content]) => ({
    path,
    bytes: Buffer.byteLength(content),
    modifiedMs: 1,
    format: "jsonl",
    source: 0,
    ...(id === undefined ? {} : { id }),
  }));
  const bytes = found.reduce((sum, file) => sum + file.bytes, 0);
  return { files: found, bytes, digest: String(bytes), modifiedDigest: "1" };
}

export function linesOf(text: string): Record<string, unknown>[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

export async function pathsOf(storage: Storage, prefix = ""): Promise<string[]> {
  const paths: string[] = [];
  for await (const { path } of storage.list(prefix)) paths.push(path);
  return paths;
}

/** `count` rows, each with an id and a text. */
export function rowsOf(count: number): string[] {
  return Array.from({ length: count }, (_, id) => `{"id":${id},"text":"row ${id}"}`);
}

/** The error that a promise is rejected with; fails where it is not. */
export async function errorOf(promise: Promise<unknown>): Promise<SluiceError> {
  try {
    await promise;
  } catch (error) {
    return error as SluiceError;
  }
  throw new Error("it was not rejected");
}

/** A storage some of whose methods are replaced. */
export function changedStorage(
  inner: Storage,
  change: (inner: Storage) => Partial<Storage>,
): Storage {
  const changes = change(inner) as Record<string, unknown>;
  return new Proxy(inner, {
    get(target, name) {
      const value = changes[name as string] ?? (target as never)[name];
      return typeof value === "function" ? (value as () => unknown).bind(target) : value;
    },
  });
}

/** The same storage, and the paths of readers of it that are open. */
export function watchedReaders(inner: Storage): { storage: Storage; open: string[] } {
  const open: string[] = [];
  const storage = changedStorage(inner, (it) => ({
    async open(path) {
      const reader = await it.open(path);
      open.push(path);
      const close = async () => {
        await reader.close();
        open.splice(open.indexOf(path), 1);
      };
      return { bytes: reader.bytes, read: (...range) => reader.read(...range), close };
    },
  }));
  return { storage, open };
}
