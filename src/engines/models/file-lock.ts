import { readFileSync } from "node:fs";
import {
  type FileHandle,
  link,
  mkdir,
  open,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  utimes,
} from "node:fs/promises";
import { dirname } from "node:path";
import { type Clock, sleep } from "../../foundation/clock.ts";
import { sortableId } from "../../foundation/ids.ts";
import { jsonObjectIn } from "../../foundation/json.ts";
import type { Random } from "../../foundation/random.ts";
import { ifThere, isAbsent, systemCode } from "../../foundation/system-errors.ts";

/** The holder of a lock file touches it this often. */
const fileLockTouchMs = 2000;

/** A lock file that was unchanged this long belongs to a dead process. */
const fileLockStaleMs = 10_000;

/** Time between two checks of a lock file that another process holds. */
const fileLockPollMs = 200;

/** What a lock needs to distinguish a living holder from a dead one. */
export interface FileLockContext {
  clock: Clock;
  random: Random;
  signal?: AbortSignal;
  /** Called once, when another process holds the lock. */
  onWait?: () => void;
}

/**
 * Ends an action whose lock another process took over, because this one was paused. Without
 * `maxAgeMs`, the lock file is read; with it, only if the last look is older.
 */
export type AssertHeld = (maxAgeMs?: number) => void;

class LockLost extends Error {}

/**
 * Runs `action` while this process alone holds the lock file `path`; others wait for their turn.
 *
 * The holder touches the file every `fileLockTouchMs`. A dead holder on the same machine is noticed
 * at once (Linux), any other when the file is unchanged for `fileLockStaleMs` of the waiting
 * process's own clock, so that two machines on one file system never compare clocks. The lock only
 * saves work: its users still publish by an atomic rename. An action that `assertHeld` ended runs
 * again when its turn comes.
 */
export async function withFileLock<T>(
  path: string,
  context: FileLockContext,
  action: (assertHeld: AssertHeld) => Promise<T>,
): Promise<T> {
  const content = JSON.stringify({
    id: sortableId(context.clock, context.random),
    mark: await processMark(),
  });
  await mkdir(dirname(path), { recursive: true });
  await acquire(path, content, context);
  const stopTouching = keepTouching(path, content, context.clock);
  try {
    return await action(heldCheck(path, content, context.clock));
  } catch (error) {
    if (!(error instanceof LockLost)) throw error;
  } finally {
    stopTouching();
    if ((await readLock(path))?.content === content) await rm(path, { force: true });
  }
  return withFileLock(path, context, action);
}

function heldCheck(path: string, content: string, clock: Clock): AssertHeld {
  // Not the monotonic time, which stands still while a machine sleeps.
  let lookedMs = clock.now();
  return (maxAgeMs = -1) => {
    const nowMs = clock.now();
    if (Math.abs(nowMs - lookedMs) <= maxAgeMs) return;
    if (contentOf(path) !== content) throw new LockLost(`another process took over ${path}`);
    lookedMs = nowMs;
  };
}

function contentOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

async function acquire(path: string, content: string, context: FileLockContext): Promise<void> {
  const { clock, signal } = context;
  let seen: LockState | undefined;
  let seenAtMs = 0;
  for (let waited = false; !(await create(path, content)); ) {
    signal?.throwIfAborted();
    const state = await readLock(path);
    if (state === undefined) continue;
    if (seen?.content !== state.content || seen.modifiedMs !== state.modifiedMs) {
      seen = state;
      seenAtMs = clock.monotonic();
    }
    const stoodStill = clock.monotonic() - seenAtMs >= fileLockStaleMs;
    if (stoodStill || (await isHolderGone(state.content))) {
      await breakLock(path, state.content, sortableId(clock, context.random));
      continue;
    }
    if (!waited) context.onWait?.();
    waited = true;
    await sleep(clock, fileLockPollMs, signal);
  }
}

async function create(path: string, content: string): Promise<boolean> {
  let file: FileHandle;
  try {
    file = await open(path, "wx");
  } catch (error) {
    if (systemCode(error) === "EEXIST") return false;
    throw error;
  }
  try {
    await file.writeFile(content);
    return true;
  } catch (error) {
    // Without its content, others would wait for it.
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}

interface LockState {
  content: string;
  modifiedMs: number;
}

async function readLock(path: string): Promise<LockState | undefined> {
  const content = await ifThere(readFile(path, "utf8"));
  const facts = await ifThere(stat(path));
  return content === undefined || !facts ? undefined : { content, modifiedMs: facts.mtimeMs };
}

async function isHolderGone(content: string): Promise<boolean> {
  // A holder that has not written its content yet, or died in between: only time can tell.
  const holder = jsonObjectIn(content) as { mark?: string } | undefined;
  return holder !== undefined && isProcessGone(holder.mark);
}

/** Two waiters may break one lock; the rename lets one of them, and a fresh lock is put back. */
async function breakLock(path: string, content: string, id: string): Promise<void> {
  const aside = `${path}.${id}`;
  try {
    await rename(path, aside);
    if ((await readFile(aside, "utf8")) !== content) await link(aside, path);
  } catch (error) {
    if (!isAbsent(error) && systemCode(error) !== "EEXIST") throw error;
  }
  await rm(aside, { force: true });
}

function keepTouching(path: string, content: string, clock: Clock): () => void {
  let stop = () => {};
  const again = () => {
    stop = clock.schedule(fileLockTouchMs, () => {
      const seconds = clock.now() / 1000;
      // The lock of a process that took it over may not live longer by our touch.
      readLock(path)
        .then((state) => (state?.content === content ? utimes(path, seconds, seconds) : undefined))
        .catch(() => {});
      again();
    });
  };
  again();
  return () => stop();
}

/**
 * A text that identifies this process among all that share a kernel: boot, process namespace,
 * number and start time. Undefined if `/proc` lacks them.
 */
export async function processMark(): Promise<string | undefined> {
  try {
    const id = await readlink("/proc/self");
    const started = await startTime(id);
    return started && [...(await namespace()), id, started].join(" ");
  } catch {
    return undefined;
  }
}

/**
 * True if the process that wrote `mark` has surely ended: it shares our boot and namespace, and its
 * number is free or another process's. False if that is unknown.
 */
export async function isProcessGone(mark: string | undefined): Promise<boolean> {
  if (mark === undefined) return false;
  const [boot, space, id, started] = mark.split(" ");
  try {
    const [ourBoot, ourSpace] = await namespace();
    if (boot !== ourBoot || space !== ourSpace || !/^\d+$/.test(id ?? "")) return false;
  } catch {
    return false;
  }
  return (await startTime(id!)) !== started;
}

async function namespace(): Promise<[boot: string, space: string]> {
  const boot = await readFile("/proc/sys/kernel/random/boot_id", "utf8");
  return [boot.trim(), await readlink("/proc/self/ns/pid")];
}

/** Field 22 of `stat`, counted after the name, which may contain spaces and brackets. */
async function startTime(id: string): Promise<string | undefined> {
  try {
    const text = await readFile(`/proc/${id}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}
