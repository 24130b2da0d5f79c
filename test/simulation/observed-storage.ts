import { removeAll } from "../../src/data/storage/remove-all.ts";
import type { Appender, Storage, Writer } from "../../src/data/storage/storage.ts";
import { sha256Hex } from "../../src/foundation/hashing.ts";
import type { Commit } from "../../src/run/attempt/commit.ts";
import type { JournalLine } from "../../src/run/attempt/journal-line.ts";
import { planPath, successPath } from "../../src/run/directory/layout.ts";
import { readJson } from "../../src/run/directory/records.ts";
import { runStorage } from "../../src/run/directory/run-storage.ts";
import type { Plan } from "../../src/run/plan/plan.ts";

const commitName = /^_sluice\/(?:r\d+\/)?commits\/\d+\.[^/]*\.json$/;
const journalName = /^_sluice\/(?:r\d+\/)?attempts\/([^/]+\/g\d+)\/(\d+)\/[^/]+\/journal\.jsonl$/;
const planName = /^_sluice\/plans\/\d+\.json$/;
const partName = /^(?:_dead-letters\/)?part-(\d+)\.[a-z.]+$/;
const attemptFile = /^_sluice\/(?:r\d+\/)?attempts\/([^/]+)\/g1\/(\d+)\//;
const retryFile = /^_sluice\/(?:r\d+\/)?generations\/(\d+)\//;

/** Whose journal a path is: of what, as `<run>/g<generation>`, and of which task. */
export function journalOf(path: string): { serves: string; task: number } | undefined {
  const match = journalName.exec(path);
  return match ? { serves: match[1]!, task: Number(match[2]) } : undefined;
}

/** Stands for all requests of a row. */
export function anyRequest(row: number): string {
  return `${row}.*`;
}

interface Published {
  digest: string;
  generation: number;
}

/** Who hears of what must never be. */
interface Watch {
  report(violation: string): void;
  /**
   * A published file changed: processes that wake late may do that, and whoever reads the seal
   * next makes it right.
   */
  reportView(violation: string): void;
  /** Called before a run is replaced. */
  onRemoval(): Promise<void>;
}

/** What was seen of a store, by whichever way. */
class Seen {
  readonly journals = new Map<string, string>();
  readonly commits = new Map<string, string>();
  readonly published = new Map<string, Published>();
  turns = 0;
  removals = 0;
}

/**
 * Watches what becomes visible on a store, whoever writes it, and reports what must never be: a
 * part without its commit or of a run that was replaced, a commit that changes, a published part
 * that changes without a retry or goes back to what it was before one, a commit whose files are not
 * whole.
 */
export class ObservedStorage implements Storage {
  readonly #inner: Storage;
  readonly #watch: Watch;
  readonly #seen: Seen;

  constructor(inner: Storage, watch: Watch, seen: Seen = new Seen()) {
    this.#inner = inner;
    this.#watch = watch;
    this.#seen = seen;
  }

  /** The same store by another way, with what was seen of it so far. */
  through(inner: Storage): ObservedStorage {
    return new ObservedStorage(inner, this.#watch, this.#seen);
  }

  /** Rises when the run is replaced and when a retry is published. */
  get turns(): number {
    return this.#seen.turns;
  }

  /** Times that somebody began to remove the run. */
  get removals(): number {
    return this.#seen.removals;
  }

  /** Requests whose answers stand in journals: what an attempt begun now must not ask. */
  requestsOnFile(serves: string, task?: number): Set<string> {
    const requests = new Set<string>();
    for (const [path, text] of this.#seen.journals) {
      const journal = journalOf(path)!;
      if (journal.serves !== serves || (task ?? journal.task) !== journal.task) continue;
      for (const request of answeredIn(text)) requests.add(request);
    }
    return requests;
  }

  get location(): string {
    return this.#inner.location;
  }

  read: Storage["read"] = (path) => this.#inner.read(path);
  open: Storage["open"] = (path) => this.#inner.open(path);
  stat: Storage["stat"] = (path) => this.#inner.stat(path);
  list: Storage["list"] = (prefix) => this.#inner.list(prefix);

  remove(path: string): Promise<void> {
    return this.#removed([path], this.#inner.remove(path));
  }

  removeAll(paths: readonly string[]): Promise<void> {
    return this.#removed(paths, removeAll(this.#inner, paths));
  }

  async #removed(paths: readonly string[], removal: Promise<void>): Promise<void> {
    if (paths.includes(successPath)) this.#seen.turns++;
    for (const path of paths) this.#seen.journals.delete(path);
    await removal;
    for (const path of paths) {
      this.#seen.commits.delete(path);
      this.#seen.published.delete(path);
    }
  }

  async appender(path: string, options?: { isNew?: boolean }): Promise<Appender> {
    const appender = await this.#inner.appender(path, options);
    if (!journalOf(path)) return appender;
    return {
      sync: () => appender.sync(),
      close: (end) => appender.close(end),
      append: async (data) => {
        await appender.append(data);
        const before = this.#seen.journals.get(path) ?? "";
        this.#seen.journals.set(path, before + Buffer.from(data).toString());
      },
    };
  }

  async createIfAbsent(path: string, data: Uint8Array) {
    if (planName.test(path)) {
      this.#seen.turns++;
      this.#seen.removals++;
      await this.#watch.onRemoval();
    }
    const reply = await this.#inner.createIfAbsent(path, data);
    if (reply === "created") await this.#noteCommit(path, data);
    return reply;
  }

  async replace(path: string, data: Uint8Array): Promise<void> {
    if (path === successPath) this.#seen.turns++;
    await this.#inner.replace(path, data);
    await this.#notePart(path);
    await this.#noteCommit(path, data);
  }

  async publish(from: string, to: string): Promise<void> {
    if (retryFile.test(from)) this.#seen.turns++;
    await this.#inner.publish(from, to);
    await this.#notePart(to, from);
  }

  async writer(path: string): Promise<Writer> {
    const writer = await this.#inner.writer(path);
    return {
      write: (data) => writer.write(data),
      abort: () => writer.abort(),
      close: async () => {
        await writer.close();
        await this.#notePart(path);
      },
    };
  }

  async #noteCommit(path: string, data: Uint8Array): Promise<void> {
    if (!commitName.test(path)) return;
    const before = this.#seen.commits.get(path);
    this.#seen.commits.set(path, sha256Hex(data));
    if (before !== undefined && before !== sha256Hex(data)) this.#watch.report(`${path} changed`);
    const commit = JSON.parse(Buffer.from(data).toString()) as Commit;
    const { part, published, columns, deadLetters, ids, run } = commit;
    const own = runStorage(this.#inner);
    const broken: string[] = [];
    for (const file of [part, published, columns, deadLetters, ids]) {
      if (!file) continue;
      const found = await own.read(file.path).then(sha256Hex, () => "missing");
      if (found !== file.sha256) broken.push(file.path);
    }
    // A worker that hung may commit for a run that was replaced: nobody reads that any more.
    if (broken.length === 0 || (await this.#isReplaced(run))) return;
    for (const file of broken) this.#watch.report(`${path} names ${file}, which is not whole`);
  }

  async #notePart(path: string, from = ""): Promise<void> {
    const match = partName.exec(path);
    if (!match) return;
    const generation = Number(retryFile.exec(from)?.[1] ?? 1);
    if (generation === 1) await this.#checkOrigin(path, Number(match[1]), from);
    const digest = await this.#digestOf(path);
    const before = this.#seen.published.get(path);
    this.#seen.published.set(path, { digest, generation });
    if (!before || before.digest === digest || generation > before.generation) return;
    this.#watch.reportView(`${path} changed after it appeared`);
  }

  async #checkOrigin(path: string, task: number, from: string): Promise<void> {
    const [, run] = attemptFile.exec(from) ?? [];
    const commit = `commits/${task}.${run}.json`;
    if (await this.#isReplaced(run)) {
      return this.#watch.reportView(`${path} is of a run that was replaced`);
    }
    // If the store loses replies, nobody may have heard of it.
    const isKnown = [...this.#seen.commits.keys()].some((known) => known.endsWith(commit));
    if (!isKnown && !(await runStorage(this.#inner).stat(`_sluice/${commit}`))) {
      this.#watch.report(`${path} appeared before the commit of its task`);
    }
  }

  async #isReplaced(run: string | undefined): Promise<boolean> {
    const plan = await readJson<Plan>(runStorage(this.#inner), planPath);
    return plan?.runId.toLowerCase() !== run?.toLowerCase();
  }

  async #digestOf(path: string): Promise<string> {
    return sha256Hex(await this.#inner.read(path));
  }
}

/** A line counts if it is whole; the first that is not ends the journal. */
function answeredIn(text: string): string[] {
  const requests: string[] = [];
  for (const line of text.split("\n").slice(0, -1)) {
    try {
      const entry = JSON.parse(line) as JournalLine;
      if (entry.outcome === "answered") requests.push(anyRequest(entry.index));
      else if (entry.outcome === "partly-answered")
        requests.push(`${entry.index}.${entry.request}`);
    } catch {
      return requests;
    }
  }
  return requests;
}
