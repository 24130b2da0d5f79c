import type { Storage } from "../../src/data/storage/storage.ts";
import { sha256Hex } from "../../src/foundation/hashing.ts";
import type { Commit } from "../../src/run/attempt/commit.ts";

const commitName = /^_sluice\/commits\/(\d+)\.[^/]*\.json$/;
const journalName = /^_sluice\/attempts\/[^/]+\/g1\/(\d+)\/[^/]+\/journal\.jsonl$/;
const partName = /^(?:_dead-letters\/)?part-(\d+)\.jsonl$/;

/** A store under watch. */
export interface ObservedStorage extends Storage {
  /** Rows whose answers stand in the journals of a task: what an attempt begun now must not ask. */
  journaledRows(task: number): Set<number>;
}

/** Number of the task whose journal a path is, or undefined. */
export function taskOfJournal(path: string): number | undefined {
  const match = journalName.exec(path);
  return match ? Number(match[1]) : undefined;
}

/**
 * Watches what becomes visible on a store, whoever writes it, and reports what must never be: a
 * part without its commit, a published part or a commit that changes, a commit whose files are not
 * whole.
 */
export function observedStorage(
  inner: Storage,
  report: (violation: string) => void,
): ObservedStorage {
  const journals = new Map<string, string>();
  const commits = new Map<number, string>();
  const published = new Map<string, string>();
  const digestOf = async (path: string) => sha256Hex(await inner.read(path));

  async function noteCommit(task: number, data: Uint8Array): Promise<void> {
    const before = commits.get(task);
    commits.set(task, sha256Hex(data));
    if (before !== undefined && before !== sha256Hex(data)) report(`commit ${task} changed`);
    const { part, deadLetters, ids } = JSON.parse(Buffer.from(data).toString()) as Commit;
    for (const file of [part, deadLetters, ids]) {
      if (!file) continue;
      const found = await digestOf(file.path).catch(() => "missing");
      if (found !== file.sha256) report(`commit ${task} names ${file.path}, which is not whole`);
    }
  }

  async function notePublished(path: string): Promise<void> {
    const task = Number(partName.exec(path)![1]);
    if (!commits.has(task)) report(`${path} appeared before the commit of task ${task}`);
    const digest = await digestOf(path);
    const before = published.get(path);
    published.set(path, digest);
    if (before !== undefined && before !== digest) report(`${path} changed after it appeared`);
  }

  return {
    location: inner.location,
    read: (path) => inner.read(path),
    open: (path) => inner.open(path),
    stat: (path) => inner.stat(path),
    list: (prefix) => inner.list(prefix),
    journaledRows(task) {
      const rows = new Set<number>();
      for (const [path, text] of journals) {
        if (taskOfJournal(path) === task) for (const row of answeredIn(text)) rows.add(row);
      }
      return rows;
    },
    async remove(path) {
      journals.delete(path);
      await inner.remove(path);
    },
    async appender(path) {
      const appender = await inner.appender(path);
      if (taskOfJournal(path) === undefined) return appender;
      return {
        sync: () => appender.sync(),
        close: () => appender.close(),
        append: async (data) => {
          await appender.append(data);
          journals.set(path, (journals.get(path) ?? "") + Buffer.from(data).toString());
        },
      };
    },
    async createIfAbsent(path, data) {
      const reply = await inner.createIfAbsent(path, data);
      const commit = commitName.exec(path);
      if (commit && reply === "created") await noteCommit(Number(commit[1]), data);
      return reply;
    },
    async replace(path, data) {
      await inner.replace(path, data);
      if (partName.test(path)) await notePublished(path);
      const commit = commitName.exec(path);
      if (commit) await noteCommit(Number(commit[1]), data);
    },
    async publish(from, to) {
      await inner.publish(from, to);
      if (partName.test(to)) await notePublished(to);
    },
    async writer(path) {
      const writer = await inner.writer(path);
      return {
        write: (data) => writer.write(data),
        abort: () => writer.abort(),
        close: async () => {
          await writer.close();
          if (partName.test(path)) await notePublished(path);
        },
      };
    },
  };
}

/** A line counts if it is whole; the first that is not ends the journal. */
function answeredIn(text: string): number[] {
  const rows: number[] = [];
  for (const line of text.split("\n").slice(0, -1)) {
    try {
      const { index, outcome } = JSON.parse(line) as { index: number; outcome: string };
      if (outcome === "answered") rows.push(index);
    } catch {
      return rows;
    }
  }
  return rows;
}
