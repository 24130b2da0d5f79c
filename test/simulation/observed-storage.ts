import type { Appender, Storage, Writer } from "../../src/data/storage/storage.ts";
import { sha256Hex } from "../../src/foundation/hashing.ts";
import type { Commit } from "../../src/run/attempt/commit.ts";

const commitName = /^_sluice\/commits\/(\d+)\.[^/]*\.json$/;
const journalName = /^_sluice\/attempts\/[^/]+\/g1\/(\d+)\/[^/]+\/journal\.jsonl$/;
const partName = /^(?:_dead-letters\/)?part-(\d+)\.jsonl$/;

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
export class ObservedStorage implements Storage {
  readonly #inner: Storage;
  readonly #report: (violation: string) => void;
  readonly #journals = new Map<string, string>();
  readonly #commits = new Map<number, string>();
  readonly #published = new Map<string, string>();

  constructor(inner: Storage, report: (violation: string) => void) {
    this.#inner = inner;
    this.#report = report;
  }

  /** Rows whose answers stand in the journals of a task: what an attempt begun now must not ask. */
  journaledRows(task: number): Set<number> {
    const rows = new Set<number>();
    for (const [path, text] of this.#journals) {
      if (taskOfJournal(path) === task) for (const row of answeredIn(text)) rows.add(row);
    }
    return rows;
  }

  get location(): string {
    return this.#inner.location;
  }

  read: Storage["read"] = (path) => this.#inner.read(path);
  open: Storage["open"] = (path) => this.#inner.open(path);
  stat: Storage["stat"] = (path) => this.#inner.stat(path);
  list: Storage["list"] = (prefix) => this.#inner.list(prefix);

  async remove(path: string): Promise<void> {
    this.#journals.delete(path);
    await this.#inner.remove(path);
  }

  async appender(path: string): Promise<Appender> {
    const appender = await this.#inner.appender(path);
    if (taskOfJournal(path) === undefined) return appender;
    return {
      ...appender,
      append: async (data) => {
        await appender.append(data);
        const before = this.#journals.get(path) ?? "";
        this.#journals.set(path, before + Buffer.from(data).toString());
      },
    };
  }

  async createIfAbsent(path: string, data: Uint8Array) {
    const reply = await this.#inner.createIfAbsent(path, data);
    if (reply === "created") await this.#noteCommit(path, data);
    return reply;
  }

  async replace(path: string, data: Uint8Array): Promise<void> {
    await this.#inner.replace(path, data);
    await this.#notePart(path);
    await this.#noteCommit(path, data);
  }

  async publish(from: string, to: string): Promise<void> {
    await this.#inner.publish(from, to);
    await this.#notePart(to);
  }

  async writer(path: string): Promise<Writer> {
    const writer = await this.#inner.writer(path);
    return {
      ...writer,
      close: async () => {
        await writer.close();
        await this.#notePart(path);
      },
    };
  }

  async #noteCommit(path: string, data: Uint8Array): Promise<void> {
    const match = commitName.exec(path);
    if (!match) return;
    const task = Number(match[1]);
    const before = this.#commits.get(task);
    this.#commits.set(task, sha256Hex(data));
    if (before !== undefined && before !== sha256Hex(data)) this.#report(`commit ${task} changed`);
    const { part, deadLetters, ids } = JSON.parse(Buffer.from(data).toString()) as Commit;
    for (const file of [part, deadLetters, ids]) {
      if (!file) continue;
      const found = await this.#digestOf(file.path).catch(() => "missing");
      if (found !== file.sha256) {
        this.#report(`commit ${task} names ${file.path}, which is not whole`);
      }
    }
  }

  async #notePart(path: string): Promise<void> {
    const match = partName.exec(path);
    if (!match) return;
    const task = Number(match[1]);
    if (!this.#commits.has(task)) this.#report(`${path} appeared before the commit of its task`);
    const digest = await this.#digestOf(path);
    const before = this.#published.get(path);
    this.#published.set(path, digest);
    if (before !== undefined && before !== digest) {
      this.#report(`${path} changed after it appeared`);
    }
  }

  async #digestOf(path: string): Promise<string> {
    return sha256Hex(await this.#inner.read(path));
  }
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
