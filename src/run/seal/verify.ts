import type { Storage } from "../../data/storage/storage.ts";
import { eachAtOnce } from "../../foundation/each-at-once.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import type { Usage } from "../../foundation/inference.ts";
import { canonicalJson } from "../../foundation/json.ts";
import type { AttemptCounts, Commit } from "../attempt/commit.ts";
import { committedTasks } from "../attempt/commits.ts";
import type { Bill } from "../bill/bill.ts";
import { noPaidAnswers, usdOf } from "../bill/costs.ts";
import type { Mender } from "../coordinate/menders.ts";
import type { FileRecord } from "../directory/file-record.ts";
import {
  deadLetterPrefix,
  manifestPathOf,
  manifestsPrefix,
  partPath,
  partPrefix,
  planPath,
  planPathOf,
  type RunGeneration,
  sealPath,
  successPath,
  writtenManifestPath,
} from "../directory/layout.ts";
import { readLines } from "../directory/lines.ts";
import { readJson } from "../directory/records.ts";
import { resultsHoldFailed } from "../openai-batch/batch-lines.ts";
import { type OutputPlaces, outputStorage } from "../output/plan-outputs.ts";
import { publishedForm } from "../output/published-form.ts";
import type { WholeOutput } from "../output/write-outputs.ts";
import {
  type Plan,
  type PlannedOutputs,
  partDigits,
  plannedRows,
  standingPlan,
  type Task,
} from "../plan/plan.ts";
import { findDuplicateIds, presentIds } from "./duplicate-ids.ts";
import { lookAtFile, type Segment } from "./fingerprint.ts";
import type { Manifest, ManifestTask, Success } from "./manifest.ts";
import { completeSeal } from "./publish-seal.ts";
import { readSeals, type Seal, type Seals, successBytes } from "./seals.ts";
import { type SealedCommits, sealedSums } from "./sums.ts";

/** One fault of a sealed run. */
export interface Damage {
  /** The faulty file, relative to the run directory; a merged file by its name. */
  file: string;
  problem: string;
}

/** The findings of `sluice verify`. */
export interface Verification {
  manifest?: Manifest;
  /** Sorted by file. */
  damages: Damage[];
  /** The amount that was read. */
  checked: { tasks: number; rows: number; bytes: number };
}

const tasksAtOnce = 16;

/**
 * Recomputes everything that a seal states, from the files: the seal itself, plans and tasks, each
 * commit, the checksum, size and lines of each part and dead letter file, every sum. Each fault is
 * reported; none stops the verification.
 *
 * @param openStorage opens other places of results.
 * @throws SluiceError `NOT_A_RUN` if there is no run.
 */
export async function verifyRun(
  storage: Storage,
  outside: Storage,
  openStorage: (location: string) => Storage = unreachable,
): Promise<Verification> {
  const traces = await Promise.all([planPath, successPath].map((path) => storage.stat(path)));
  if (!traces.some(Boolean)) throw new SluiceError("NOT_A_RUN", storage.location);
  return new Verifier({ storage, outside, openStorage }).run();
}

function unreachable(location: string): never {
  throw new SluiceError("UNSUPPORTED", `results at ${location} cannot be looked at from here`);
}

class Verifier {
  readonly #places: OutputPlaces;
  readonly #storage: Storage;
  readonly #outside: Storage;
  readonly #damages: Damage[] = [];
  readonly #checked = { tasks: 0, rows: 0, bytes: 0 };
  readonly #commits: SealedCommits = { first: new Map(), retries: new Map() };
  #manifestPath = manifestPathOf(1);
  #resultsHoldFailed = false;
  /** False if rows in files are not single lines. */
  #hasLines = true;
  #ending = ".jsonl";
  #plannedOutputs: PlannedOutputs | undefined;
  /** Digits in the names of parts. */
  #digits = 5;

  constructor(places: OutputPlaces) {
    this.#places = places;
    this.#storage = places.storage;
    this.#outside = places.outside;
  }

  async run(): Promise<Verification> {
    const manifest = await this.#seal();
    if (manifest) {
      // A gap in a damaged manifest ends one check, not the others.
      await this.#guarded(() => this.#plans(manifest));
      await this.#guarded(() => this.#tasks(manifest));
      await this.#guarded(() => this.#sums(manifest));
      await this.#guarded(() => this.#ids(manifest));
      await this.#guarded(() => this.#merged(manifest));
      await this.#guarded(() => this.#outputs(manifest));
      await this.#guarded(() => this.#strangers(manifest));
    }
    const damages = this.#damages.sort((a, b) => (a.file < b.file ? -1 : a.file > b.file ? 1 : 0));
    return { ...(manifest ? { manifest } : {}), damages, checked: this.#checked };
  }

  #report(file: string, problem: string): void {
    this.#damages.push({ file, problem });
  }

  /** Reports a difference between the manifest and the files. */
  #compare(what: string, stated: unknown, found: unknown, source: string): void {
    const [says, is] = [stated, found].map((value) => canonicalJson(value ?? null));
    if (says !== is) this.#report(this.#manifestPath, `${what} is ${says}, by ${source} ${is}`);
  }

  async #guarded(check: () => Promise<void>): Promise<void> {
    try {
      await check();
    } catch (error) {
      const { place, message } = asSluiceError(error);
      const isOurs = error instanceof SluiceError;
      const problem = isOurs ? message : "it does not have the form of a manifest";
      this.#report((isOurs && place.file) || this.#manifestPath, problem);
    }
  }

  async #seal(): Promise<Manifest | undefined> {
    const seals = await this.#seals();
    const sealed = seals?.sealed;
    if (!sealed) return undefined;
    this.#manifestPath = manifestPathOf(sealed.generation);
    await this.#success(sealed);
    const { path, sha256, bytes: length } = sealed.manifest!;
    const bytes = await this.#read(path);
    if (!bytes) {
      await this.#guarded(() => this.#chain(seals));
      return undefined;
    }
    if (sha256Hex(bytes) !== sha256 || bytes.length !== length) {
      // It is unknown which of the two changed, unless the rest of the manifest shows it.
      const seal = sealed.by === "" ? successPath : sealPath(sealed);
      this.#report(path, `it is not the one that ${seal} has the checksum of`);
      this.#report(seal, `its checksum is not that of ${path}`);
    }
    const manifest = parsed<Manifest>(bytes);
    if (!manifest) this.#report(path, "it is not JSON");
    else {
      this.#compare("generation", manifest.generation, sealed.generation, "its seal");
    }
    await this.#guarded(() => this.#chain(seals, manifest));
    return manifest;
  }

  async #seals(): Promise<Seals | undefined> {
    const plan = await readJson<Plan>(this.#storage, planPath).catch(() => undefined);
    const of = { runId: plan?.runId ?? "" };
    let seals: Seals;
    try {
      seals = await readSeals(this.#storage, of);
    } catch (error) {
      const { place, message } = asSluiceError(error);
      this.#report(place.file ?? successPath, message);
      return undefined;
    }
    if (!seals.sealed) this.#report(successPath, "it is missing: the run is not sealed");
    if (seals.sealed?.by !== "") return seals;
    // Manifests with names that only their writers use exist since each seal has a record.
    for await (const { path } of this.#storage.list(manifestsPrefix(of))) {
      const { generation = 1 } = (await this.#json<Manifest>(path)) ?? {};
      this.#report(sealPath({ ...of, generation }), "the seal is missing");
      break;
    }
    return seals;
  }

  /** What other programs see of the seal. */
  async #success(sealed: Seal): Promise<void> {
    const found = await this.#read(successPath, "it is missing: the seal was not published");
    const published = successBytes(sealed, this.#manifestPath);
    if (found && !published.equals(found)) {
      const stated = parsed<Success>(found);
      const isOlder = stated !== undefined && stated.generation < sealed.generation;
      this.#report(
        successPath,
        isOlder
          ? `it is of seal ${stated.generation}, an older one`
          : "it changed since it was written",
      );
    }
    if (sealed.by === "") return;
    const copy = await this.#read(this.#manifestPath);
    if (copy && sha256Hex(copy) !== sealed.manifest!.sha256) {
      this.#report(this.#manifestPath, "it is not the manifest that is sealed");
    }
  }

  /** Each seal names the one that it builds on, and the manifest names all of them. */
  async #chain(seals: Seals, manifest?: Manifest): Promise<void> {
    const sealed = seals.all.filter(({ end }) => end === "sealed");
    // An earlier version of Sluice sealed without a record, and numbered without gaps.
    const [first] = sealed;
    const unrecorded = first ? (first.base ?? 0) : (manifest?.generation ?? 0);
    const numbers = Array.from({ length: unrecorded }, (_, at) => at + 1);
    for (const seal of sealed) {
      const before = numbers.at(-1) ?? null;
      if (seal.base !== before) {
        this.#report(
          sealPath(seal),
          `it builds on seal ${seal.base}, and seal ${before} is the one before`,
        );
      }
      numbers.push(seal.generation);
      if (seal.manifest!.path !== writtenManifestPath(seal, seal.by)) {
        this.#report(sealPath(seal), "it does not name the manifest of its writer");
      }
      if (seal !== seals.sealed) await this.#file(this.#storage, seal.manifest!);
    }
    if (!manifest) return;
    const stated = [1, ...(manifest.retries ?? []).map((retry) => retry.generation)];
    this.#compare("generations", stated, numbers, "the seals");
  }

  /** The plan of each generation, its tasks, and what the manifest repeats of them. */
  async #plans(manifest: Manifest): Promise<void> {
    const retries = manifest.retries ?? [];
    let first: Plan | undefined;
    let last: Plan | undefined;
    let whole: Plan | undefined;
    for (const { generation, plan: file } of [{ generation: 1, plan: manifest.plan }, ...retries]) {
      this.#compare("path of a plan", file.path, planPathOf(generation), "its generation");
      await this.#file(this.#storage, file);
      const bytes = await this.#storage.read(file.path).catch(() => undefined);
      const plan = bytes && parsed<Plan>(bytes);
      if (!plan) continue;
      for (const { file, index } of [plan.tasks, ...(plan.whole ? [plan.whole.tasks] : [])]) {
        await this.#file(this.#storage, file);
        await this.#file(this.#storage, index);
      }
      first ??= plan;
      if (plan.whole) whole = plan;
      last = plan;
    }
    if (!first || !last) return;
    const run = await standingPlan(this.#storage, whole?.generation);
    const { runId, mergedFile, job } = first;
    const { input, rows, outputs } = run;
    this.#resultsHoldFailed = resultsHoldFailed(job);
    const form = publishedForm(first);
    this.#hasLines = form.isLines;
    this.#ending = form.ending;
    this.#plannedOutputs = outputs;
    this.#digits = partDigits(run);
    this.#compare("standing", manifest.standing, whole?.generation, "the plans");
    this.#compare("errorFile", manifest.errorFile?.path, first.errorFile, "the plan");
    this.#compare("runId", manifest.runId, runId, "the plan");
    this.#compare("name", manifest.name, job.name, "the plan");
    this.#compare("input", manifest.input, input, "the plan");
    this.#compare("merged", manifest.merged?.path, mergedFile, "the plan");
    this.#compare("rows.total", manifest.rows.total, rows, "the plan");
    this.#compare("seed", manifest.seed, last.seed, "the plan");
    this.#compare("software", manifest.software, last.software, "the plan");
    await this.#planned(manifest, run);
    for (const task of await committedTasks(this.#storage, first)) {
      if (task < first.tasks.count) continue;
      this.#report(`_sluice/commits/${task}.*`, "the plan has no such task");
    }
  }

  /** Every planned task, and nothing else, is sealed and committed. */
  async #planned(manifest: Manifest, plan: Plan): Promise<void> {
    this.#compare("tasks", manifest.tasks.length, plan.tasks.count, "the plan");
    try {
      for await (const line of readLines(this.#storage, plan.tasks.file.path)) {
        const task = JSON.parse(line) as Task;
        const sealed = manifest.tasks[task.task]?.rows;
        this.#compare(`rows of task ${task.task}`, sealed, plannedRows(task), "plan");
      }
    } catch {
      // That file was already reported.
    }
  }

  #tasks(manifest: Manifest): Promise<void> {
    return eachAtOnce(manifest.tasks.entries(), tasksAtOnce, ([task, entry]) =>
      this.#guarded(() => this.#task(manifest, entry, task)),
    );
  }

  async #task(manifest: Manifest, entry: ManifestTask, task: number): Promise<void> {
    this.#compare(`task at ${task}`, entry.task, task, "its place");
    const { runId } = manifest;
    const commit = await this.#commit(entry.commit, { runId, generation: entry.generation ?? 1 });
    let recovered = 0;
    for (const retry of entry.retried ?? []) {
      recovered += retry.recovered;
      const { generation } = retry;
      const again = await this.#commit(retry.commit, { runId, generation });
      if (again) this.#addRetried(generation, task, again);
    }
    if (commit) {
      this.#commits.first.set(task, commit);
      this.#compareTask(entry, commit, recovered);
      for (const file of [commit.ids, commit.cutRows, commit.rowHashes]) {
        if (file) await this.#file(this.#storage, file);
      }
    }
    const { part, source } = entry;
    if (part) await this.#file(this.#storage, part, this.#hasLines ? entry.results : undefined);
    // Published lines are checked at their published place.
    if (source && !this.#hasLines) await this.#file(this.#storage, source, entry.results);
    if (entry.lineCounts) await this.#file(this.#storage, entry.lineCounts);
    if (entry.deadLetters) await this.#file(this.#storage, entry.deadLetters, entry.failed);
    this.#checked.tasks++;
    this.#checked.rows += entry.rows;
  }

  #addRetried(generation: number, task: number, commit: Commit): void {
    const commits = this.#commits.retries.get(generation) ?? new Map<number, Commit>();
    this.#commits.retries.set(generation, commits.set(task, commit));
  }

  async #commit(file: FileRecord, of: RunGeneration): Promise<Commit | undefined> {
    const bytes = await this.#read(file.path, "the commit is missing");
    if (!bytes) return undefined;
    if (sha256Hex(bytes) !== file.sha256 || bytes.length !== file.bytes) {
      this.#report(file.path, "the commit changed since the run was sealed");
    }
    const commit = parsed<Commit>(bytes);
    if (!commit) this.#report(file.path, "the commit is not JSON");
    else if (commit.run !== of.runId || commit.generation !== of.generation) {
      this.#report(file.path, "the commit is of another run");
    }
    return commit;
  }

  #compareTask(entry: ManifestTask, commit: Commit, recovered: number): void {
    const { task, part, source: lines = part, deadLetters, rows, retried = [] } = entry;
    const what = (key: string) => `${key} of task ${task}`;
    const source = "its commit";
    // A row that had a line when it failed still has one.
    const results = commit.rows.results + (this.#resultsHoldFailed ? 0 : recovered);
    const failed = commit.rows.failed - recovered;
    if (!entry.generation) this.#compare(what("number"), task, commit.task, source);
    this.#compare(what("attempt"), entry.attempt, commit.attempt, source);
    this.#compare(what("rows"), rows, commit.rows.total, source);
    // Only the lines show retried rows that became several, or none.
    const isTold = retried.length === 0 || !entry.lineCounts;
    if (isTold) this.#compare(what("results"), entry.results, results, source);
    this.#compare(what("failed"), entry.failed, failed, source);
    const { answered, filtered } = commit.rows;
    const outcomes = answered + filtered + commit.rows.failed;
    this.#compare(what("outcomes"), rows, outcomes, source);
    this.#compare(what("dead letters"), deadLetters !== null, failed > 0, source);
    const isOne = part !== null && entry.source !== undefined && this.#hasLines;
    if (isOne) this.#compare(what("part"), contentOf(part), contentOf(entry.source!), "its source");
    if (retried.length > 0) return;
    if (lines) this.#compare(what("part"), contentOf(lines), contentOf(commit.part), source);
    this.#compare(what("dead letters"), deadLetters?.sha256, commit.deadLetters?.sha256, source);
  }

  async #sums(manifest: Manifest): Promise<void> {
    // There are no sums without the missing commits, which were already reported.
    if (this.#commits.first.size !== manifest.tasks.length) return;
    const found = await sealedSums(this.#storage, manifest, this.#commits);
    for (const key of ["rows", "requests", "usage", "errors"] as const) {
      this.#compare(key, manifest[key], found[key], "the commits");
    }
    const { bill, cut } = manifest;
    if (found.cut !== undefined) this.#compare("cut", cut, found.cut, "the commits");
    for (const busySeconds of [manifest.busySeconds, bill?.busySeconds ?? found.busySeconds]) {
      // Sums of fractions depend slightly on their order.
      if (Math.abs(busySeconds - found.busySeconds) <= 1e-6 * found.busySeconds) continue;
      this.#compare("busySeconds", busySeconds, found.busySeconds, "the commits");
    }
    if (!bill) return;
    for (const [key, stated, follows] of billedFacts(manifest, bill, found)) {
      this.#compare(`bill: ${key}`, stated, follows, "the commits");
    }
  }

  async #ids({ duplicateIds, tasks, standing }: Manifest): Promise<void> {
    const { first, retries } = this.#commits;
    // Rows that a retry read again may have other ids.
    const again = standing === undefined ? [] : [...retries.values()];
    const commits = tasks.map(({ task }) => [first, ...again].flatMap((of) => of.get(task) ?? []));
    const files = await presentIds(this.#storage, commits);
    const present = await Promise.all(files.map(({ path }) => this.#storage.stat(path)));
    if (first.size !== tasks.length || present.some((file) => !file)) return;
    const found = files.length === 0 ? null : await findDuplicateIds(this.#storage, files);
    // Earlier versions also counted the former ids of rows that a retry read again.
    const former = files.map(({ replaced: _, ...file }) => file);
    const stated = canonicalJson(duplicateIds ?? null);
    if (again.length > 0 && stated !== canonicalJson(found)) {
      const counted = await findDuplicateIds(this.#storage, former);
      if (stated === canonicalJson(counted)) return;
    }
    this.#compare("duplicateIds", duplicateIds, found, "the ids");
  }

  async #merged({ merged, rows, tasks, errorFile }: Manifest): Promise<void> {
    if (errorFile) await this.#file(this.#outside, errorFile, rows.failed);
    if (!merged) return;
    const commits = tasks.map(({ task }) => this.#commits.first.get(task));
    // The merged file holds more of retried tasks than their commits know.
    const isPlain = tasks.every(({ retried }) => !retried) && !commits.includes(undefined);
    const segments = isPlain ? commits.map((commit) => commit!.part) : [];
    if (this.#hasLines) await this.#file(this.#outside, merged, rows.results, segments);
    else await this.#file(this.#outside, merged);
  }

  /** The result files by input or by row, from their list. */
  async #outputs({ outputs, rows }: Manifest): Promise<void> {
    const planned = this.#plannedOutputs;
    this.#compare("outputs", outputs !== undefined, planned !== undefined, "the plan");
    if (!outputs || !planned) return;
    await this.#file(this.#storage, planned.list, planned.files);
    await this.#file(this.#storage, outputs.list, outputs.files);
    const target = outputStorage(planned.base, this.#places);
    let results = 0;
    for await (const line of readLines(this.#storage, outputs.list.path)) {
      const file = JSON.parse(line) as WholeOutput;
      results += file.results;
      await this.#file(target, file);
    }
    this.#compare("rows.results", rows.results, results, outputs.list.path);
  }

  /** Result files without a commit: readers of the directory would read their rows twice. */
  async #strangers(manifest: Manifest): Promise<void> {
    const known = new Set<string>();
    for (const { part, deadLetters } of manifest.tasks) {
      if (part) known.add(part.path);
      if (deadLetters) known.add(deadLetters.path);
    }
    const { length } = manifest.tasks;
    const last = partPath(length - 1, this.#digits, this.#ending);
    const problem = manifest.merged
      ? "no commit knows this file: results are merged"
      : `no commit knows this file (the last part is ${last})`;
    // Names of files by input or by row may begin like those of parts.
    const prefixes = manifest.outputs ? [deadLetterPrefix] : [partPrefix, deadLetterPrefix];
    for (const prefix of prefixes) {
      for await (const { path } of this.#storage.list(prefix)) {
        if (!known.has(path)) this.#report(path, problem);
      }
    }
  }

  /** Size, checksum and, if known, the number of lines of one file. */
  async #file(
    storage: Storage,
    file: FileRecord,
    lines?: number,
    segments?: readonly Segment[],
  ): Promise<void> {
    const { bytes, problem } = await lookAtFile(storage, file, lines, segments);
    this.#checked.bytes += bytes;
    if (problem !== undefined) this.#report(file.path, problem);
  }

  async #json<T>(path: string): Promise<T | undefined> {
    return await readJson<T>(this.#storage, path).catch(() => undefined);
  }

  async #read(path: string, absent = "the file is missing"): Promise<Buffer | undefined> {
    try {
      return Buffer.from(await this.#storage.read(path));
    } catch (error) {
      const { code, message } = asSluiceError(error);
      this.#report(path, code === "NOT_FOUND" ? absent : message);
      return undefined;
    }
  }
}

function contentOf({ sha256, bytes }: FileRecord) {
  return { sha256, bytes };
}

function parsed<T>(bytes: Uint8Array): T | undefined {
  try {
    const value = JSON.parse(Buffer.from(bytes).toString()) as T;
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The facts of a bill that follow from the commits, for a verification: each with its stated and
 * its correct value. Lost answers are known only while there are journals; they and the wall time
 * are accepted as stated.
 */
function* billedFacts(
  { retries = [] }: Pick<Manifest, "retries">,
  bill: Bill,
  found: Pick<AttemptCounts, "usage" | "invalid">,
): Generator<[fact: string, stated: unknown, follows: unknown]> {
  const { lost, invalid } = bill.paidTwice;
  for (const key of [
    "promptTokens",
    "cachedTokens",
    "completionTokens",
  ] satisfies (keyof Usage)[]) {
    yield [key, bill[key], found.usage[key] + lost[key]];
  }
  yield ["invalid", invalid, found.invalid ?? noPaidAnswers];
  // Retries may have had other prices than the stated ones.
  if (retries.length === 0) yield ["usd", bill.usd, usdOf(bill, bill.prices ?? undefined)];
}

/** The findings of a verification, with those that were mended. */
export interface MendedVerification extends Verification {
  /** Views of the results that were damaged, and now agree with the seal. */
  mended: readonly Damage[];
}

/**
 * Recomputes what the newest seal states, as `verifyRun` does, and publishes damaged views again
 * from their source files.
 *
 * @throws SluiceError `NOT_A_RUN` if there is no run.
 */
export async function verifyAndMend(
  places: OutputPlaces,
  mender: Mender,
): Promise<MendedVerification> {
  const { storage, outside, openStorage } = places;
  const found = await verifyRun(storage, outside, openStorage);
  if (!found.manifest || found.damages.length === 0) return { ...found, mended: [] };
  try {
    await completeSeal(places, found.manifest, mender, "contents");
  } catch {
    // What cannot be mended, for example without write access, is reported as found.
    return { ...found, mended: [] };
  }
  const now = await verifyRun(storage, outside, openStorage);
  const remaining = new Set(now.damages.map(({ file, problem }) => `${file}: ${problem}`));
  const mended = found.damages.filter(({ file, problem }) => !remaining.has(`${file}: ${problem}`));
  return { ...now, mended };
}
