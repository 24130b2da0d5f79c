import type { Storage } from "../../src/data/storage/storage.ts";
import { sha256Hex } from "../../src/foundation/hashing.ts";
import type { Commit } from "../../src/run/attempt/commit.ts";

const commitName = /^_sluice\/commits\/(\d+)\.[^/]*\.json$/;
const partName = /^(?:_dead-letters\/)?part-(\d+)\.jsonl$/;

/**
 * Watches what becomes visible on a store, whoever writes it, and reports what must never be: a
 * part without its commit, a published part or a commit that changes, a commit whose files are not
 * whole.
 */
export function observedStorage(inner: Storage, report: (violation: string) => void): Storage {
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
    appender: (path) => inner.appender(path),
    remove: (path) => inner.remove(path),
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
