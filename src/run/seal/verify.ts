import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { sha256Hex, sha256Stream } from "../../foundation/hashing.ts";
import { canonicalJson } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { type AttemptCounts, addCounts, type Commit, noCounts } from "../attempt/commit.ts";
import {
  deadLetterPrefix,
  manifestPathOf,
  partPath,
  partPrefix,
  partWidth,
  successPath,
} from "../layout.ts";
import { type Plan, type PlannedFile, readPlan } from "../plan.ts";
import { recordBytes } from "../records.ts";
import { committedTasks, readCommit } from "./commits.ts";
import { type Manifest, type ManifestTask, readSuccess } from "./manifest.ts";

/** One thing that is wrong with a sealed run. */
export interface Damage {
  /** The file at fault, relative to the run directory. */
  file: string;
  problem: string;
}

/** What `sluice verify` found. */
export interface Verification {
  manifest?: Manifest;
  damages: Damage[];
  /** What was read to say so. */
  checked: { tasks: number; rows: number; bytes: number };
}

/**
 * Recomputes everything that a seal states, from the files: the seal itself, plan and tasks, each
 * commit, the checksum, size and lines of each part and dead letter file, every sum. Each damage is
 * named; none stops the search.
 *
 * @throws SluiceError `NOT_A_RUN` where there is no run.
 */
export async function verifyRun(storage: Storage, outside: Storage): Promise<Verification> {
  await readPlan(storage);
  return new Verifier(storage, outside).run();
}

class Verifier {
  readonly #storage: Storage;
  readonly #outside: Storage;
  readonly #damages: Damage[] = [];
  readonly #checked = { tasks: 0, rows: 0, bytes: 0 };

  constructor(storage: Storage, outside: Storage) {
    this.#storage = storage;
    this.#outside = outside;
  }

  async run(): Promise<Verification> {
    const manifest = await this.#seal();
    if (manifest) {
      const plan = await this.#plan(manifest);
      const counts = await this.#tasks(manifest);
      this.#sums(manifest, counts);
      if (plan) await this.#planned(manifest, plan);
      await this.#merged(manifest);
      await this.#strangers(manifest);
    }
    return { ...(manifest ? { manifest } : {}), damages: this.#damages, checked: this.#checked };
  }

  #report(file: string, problem: string): void {
    this.#damages.push({ file, problem });
  }

  async #seal(): Promise<Manifest | undefined> {
    const success = await readSuccess(this.#storage).catch(() => undefined);
    if (!success) {
      this.#report(successPath, "missing or unreadable: the run is not sealed");
      return undefined;
    }
    const path = manifestPathOf(success.generation);
    const bytes = await this.#read(path);
    if (!bytes) return undefined;
    if (sha256Hex(bytes) !== success.sha256) {
      this.#report(path, "changed since it was sealed (its checksum is in _SUCCESS)");
    }
    try {
      return JSON.parse(Buffer.from(bytes).toString()) as Manifest;
    } catch {
      this.#report(path, "is no JSON");
      return undefined;
    }
  }

  async #plan(manifest: Manifest): Promise<Plan | undefined> {
    const bytes = await this.#read(manifest.plan.path);
    if (!bytes) return undefined;
    if (sha256Hex(bytes) !== manifest.plan.sha256) {
      this.#report(manifest.plan.path, "changed since the run was sealed");
    }
    const plan = await readPlan(this.#storage, manifest.generation).catch(() => undefined);
    if (!plan) this.#report(manifest.plan.path, "cannot be read");
    return plan;
  }

  async #planned(manifest: Manifest, plan: Plan): Promise<void> {
    for (const file of [plan.tasks.file, plan.tasks.index]) await this.#file(this.#storage, file);
    if (plan.tasks.count !== manifest.tasks.length) {
      const { length } = manifest.tasks;
      this.#report("_manifest.json", `${length} tasks sealed, ${plan.tasks.count} planned`);
    }
    if (plan.rows !== manifest.rows.total) {
      this.#report("_manifest.json", `${manifest.rows.total} rows sealed, ${plan.rows} planned`);
    }
    const committed = await committedTasks(this.#storage, manifest);
    for (const { task, commit } of manifest.tasks) {
      if (!committed.has(task)) this.#report(commit.path, "the commit is missing");
    }
  }

  async #tasks(manifest: Manifest): Promise<AttemptCounts> {
    let counts = structuredClone(noCounts);
    for (const entry of manifest.tasks) {
      const commit = await this.#commit(manifest, entry);
      if (commit) {
        counts = addCounts(counts, commit);
        this.#compare(entry, commit);
      }
      if (entry.part) {
        await this.#file(this.#storage, entry.part, entry.results);
      }
      if (entry.deadLetters) await this.#file(this.#storage, entry.deadLetters, entry.failed);
      else if (entry.failed > 0) {
        this.#report(
          entry.commit.path,
          `${entry.failed} rows failed and no dead letters are named`,
        );
      }
      this.#checked.tasks++;
      this.#checked.rows += entry.rows;
    }
    return counts;
  }

  async #commit(manifest: Manifest, entry: ManifestTask): Promise<Commit | undefined> {
    try {
      const commit = await readCommit(this.#storage, manifest, entry.task);
      if (sha256Hex(recordBytes(commit)) !== entry.commit.sha256) {
        this.#report(entry.commit.path, "changed since the run was sealed");
      }
      return commit;
    } catch (error) {
      this.#report(entry.commit.path, asSluiceError(error).message);
      return undefined;
    }
  }

  #compare(entry: ManifestTask, { rows, part, deadLetters, attempt }: Commit): void {
    const stated = [entry.rows, entry.results, entry.failed, entry.attempt];
    const found = [rows.total, rows.results, rows.failed, attempt];
    const files = [entry.part?.sha256 ?? part.sha256, entry.deadLetters?.sha256 ?? null];
    const committed = [part.sha256, deadLetters?.sha256 ?? null];
    if (canonicalJson([stated, files]) !== canonicalJson([found, committed])) {
      this.#report("_manifest.json", `task ${entry.task} differs from its commit`);
    }
  }

  #sums(manifest: Manifest, counts: AttemptCounts): void {
    for (const key of ["rows", "requests", "usage", "errors"] as const) {
      const [stated, found] = [canonicalJson(manifest[key]), canonicalJson(counts[key])];
      if (stated !== found) {
        this.#report("_manifest.json", `${key} states ${stated}, the commits sum up to ${found}`);
      }
    }
  }

  async #merged({ merged, rows }: Manifest): Promise<void> {
    if (merged) await this.#file(this.#outside, merged, rows.results);
  }

  /** Result files that no commit knows: readers of the directory would take their rows twice. */
  async #strangers(manifest: Manifest): Promise<void> {
    const known = new Set<string>();
    for (const { part, deadLetters } of manifest.tasks) {
      if (part) known.add(part.path);
      if (deadLetters) known.add(deadLetters.path);
    }
    const last = partPath(manifest.tasks.length - 1, partWidth(manifest.tasks.length));
    for (const prefix of [partPrefix, deadLetterPrefix]) {
      for await (const { path } of this.#storage.list(prefix)) {
        if (!known.has(path)) this.#report(path, `no commit knows this file (the last is ${last})`);
      }
    }
  }

  /** Size, checksum and, where they are known, the number of lines of one file. */
  async #file(storage: Storage, file: PlannedFile, lines?: number): Promise<void> {
    try {
      const found = await fingerprint(storage, file.path);
      this.#checked.bytes += found.bytes;
      if (lines !== undefined && found.lines !== lines) {
        this.#report(file.path, `has ${found.lines} rows, ${lines} were sealed`);
      } else if (found.bytes !== file.bytes) {
        this.#report(file.path, `has ${found.bytes} bytes, ${file.bytes} were sealed`);
      } else if (found.sha256 !== file.sha256) {
        this.#report(file.path, "its content changed since it was sealed (checksum differs)");
      }
    } catch (error) {
      const { code, message } = asSluiceError(error);
      this.#report(file.path, code === "NOT_FOUND" ? "the file is missing" : message);
    }
  }

  async #read(path: string): Promise<Uint8Array | undefined> {
    try {
      return await this.#storage.read(path);
    } catch (error) {
      const { code, message } = asSluiceError(error);
      this.#report(path, code === "NOT_FOUND" ? "the file is missing" : message);
      return undefined;
    }
  }
}

async function fingerprint(storage: Storage, path: string) {
  const reader = await storage.open(path);
  try {
    const digest = sha256Stream();
    let [bytes, lines] = [0, 0];
    for (let offset = 0; offset < reader.bytes; offset += limits.readChunkBytes) {
      const chunk = await reader.read(offset, limits.readChunkBytes);
      digest.update(chunk);
      bytes += chunk.length;
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++;
    }
    return { bytes, lines, sha256: digest.digest("hex") };
  } finally {
    await reader.close();
  }
}
