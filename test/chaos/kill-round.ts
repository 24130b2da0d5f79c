import { rmSync } from "node:fs";
import { join } from "node:path";
import { type Random, randomInteger } from "../../src/foundation/random.ts";
import { type FarOutput, RunFiles } from "./run-files.ts";
import {
  killQuietly,
  pause,
  runningIn,
  runSluice,
  type SluiceProcess,
  startSluice,
  stillRunning,
} from "./sluice-process.ts";

/** Who is killed; `store` is the server that a far output lies in. */
export type KillKind = "worker" | "coordinator" | "group" | "store";

/** Those of a run on this machine alone. */
export const killKinds: readonly KillKind[] = ["worker", "coordinator", "group"];

/** What some runs under kills came to. */
export interface KillReport {
  kills: number;
  runs: number;
  calls: number;
  /** Rows that were asked more than once, each further time counted. */
  askedAgain: number;
  /** Rows that were asked and not on file at the kills: what may be asked again. */
  inFlightAtKills: number;
  violations: string[];
}

export interface KillOptions {
  kind: KillKind;
  kills: number;
  random: Random;
  /** Where the runs lie; each is removed when nothing is wrong with it. */
  folder: string;
  onProgress?(report: KillReport): void;
  /** Where runs lie instead of in that folder. */
  far?: FarStore;
}

/** A store that runs lie in. */
export interface FarStore {
  outputOf(name: string): FarOutput;
  kill(): Promise<void>;
  startAgain(): Promise<void>;
}

const job = {
  rows: 600,
  rowsPerTask: 75,
  workers: 2,
  model: { latencyMs: { mean: 12 }, capacity: 4 },
};
const command = ["run", "-c", "job.yaml", "--json"];
const maxCalls = 200;
/** A row that is alone in flight at each of three kills is blamed for them, and rightly so. */
const rowsBetweenKills = 8;

/** Runs the job again and again, killing as it goes, until all the kills have been. */
export async function runUnderKills(options: KillOptions): Promise<KillReport> {
  const report: KillReport = {
    kills: 0,
    runs: 0,
    calls: 0,
    askedAgain: 0,
    inFlightAtKills: 0,
    violations: [],
  };
  const expected = await undisturbedResults(options.folder);
  while (report.kills < options.kills && report.violations.length === 0) {
    const name = `${options.kind}-${report.runs++}`;
    const directory = join(options.folder, name);
    const files = new RunFiles(directory, job, options.far?.outputOf(name));
    const run = new KilledRun(files, options, report);
    await run.play(expected);
    if (report.violations.length === 0) rmSync(directory, { recursive: true });
    if (report.runs > 10 + 2 * report.kills) report.violations.push("the kills come too late");
    options.onProgress?.(report);
  }
  return report;
}

async function undisturbedResults(folder: string): Promise<string> {
  const files = new RunFiles(join(folder, "undisturbed"), job);
  const { code, stderr } = await runSluice(command, files.directory);
  if (code !== 0) throw new Error(`the undisturbed run ends with ${code}\n${stderr}`);
  return files.results();
}

class KilledRun {
  readonly #files: RunFiles;
  readonly #options: KillOptions;
  readonly #report: KillReport;
  readonly #workers = new Set<number>();
  #inFlightAtKills = 0;

  constructor(files: RunFiles, options: KillOptions, report: KillReport) {
    this.#files = files;
    this.#options = options;
    this.#report = report;
  }

  async play(expected: string): Promise<void> {
    for (let call = 1; ; call++) {
      const { code, stderr } = await this.#call();
      if (code === 0) break;
      if (code === null) continue;
      // Someone else may be found at work for a moment, and a task may have been killed too often.
      if (code !== 75 && code !== 69 && code !== 74) this.#violate(`exit ${code}: ${stderr}`);
      if (call > maxCalls) this.#violate(`not sealed after ${call} calls: ${stderr}`);
      if (this.#report.violations.length > 0) break;
    }
    const started = new Set([...this.#workers, ...runningIn(this.#files.directory)]);
    const left = await stillRunning([...started], 15_000);
    if (left.length > 0) this.#violate(`workers ${left.join(", ")} did not leave`);
    for (const pid of left) killQuietly(pid, "SIGKILL");
    if (this.#report.violations.length === 0) await this.#check(expected);
  }

  async #call() {
    this.#report.calls++;
    const { directory, environment } = this.#files;
    const process = startSluice(command, directory, environment);
    const killing = this.#killDuring(process);
    const end = await process.ended;
    await killing;
    for (const pid of process.workers) this.#workers.add(pid);
    return end;
  }

  #killDuring(process: SluiceProcess): Promise<void> {
    if (this.#options.kind === "worker") return this.#killWorkers(process);
    if (this.#options.kind === "store") return this.#killStore(process);
    return this.#killOnce(process);
  }

  /** Nobody of the run dies, so that nothing may be asked again. */
  async #killStore(process: SluiceProcess): Promise<void> {
    const { far, random } = this.#options;
    while (this.#killsLeft > 0) {
      await pause(random.next() * 800);
      if (process.hasEnded()) return;
      await far!.kill();
      this.#report.kills++;
      await pause(random.next() * 300);
      await far!.startAgain();
    }
  }

  async #killWorkers(process: SluiceProcess): Promise<void> {
    await process.workerStarted;
    while (this.#killsLeft > 0) {
      await this.#untilAsked(process, rowsBetweenKills);
      await this.#untilMoment(process, 500);
      if (process.hasEnded()) return;
      const { workers } = process;
      // The last two are those that live, or the two that were killed last.
      const pid = workers.at(-1 - randomInteger(this.#options.random, Math.min(2, workers.length)));
      this.#kill(() => killQuietly(pid!, "SIGKILL"));
    }
  }

  async #killOnce(process: SluiceProcess): Promise<void> {
    if (this.#killsLeft === 0) return;
    await this.#untilMoment(process, 1200);
    if (process.hasEnded()) return;
    const isGroup = this.#options.kind === "group";
    this.#kill(() => (isGroup ? process.killGroup("SIGKILL") : process.kill("SIGKILL")));
  }

  /**
   * Waits for the moment of a kill: some time, drawn. To a far store the way to the first row is
   * long, so that most kills wait for a row that is asked.
   */
  async #untilMoment(process: SluiceProcess, spanMs: number): Promise<void> {
    const { far, random } = this.#options;
    if (far && random.next() < 0.7) await this.#untilAsked(process, 1);
    await pause(50 + random.next() * spanMs);
  }

  async #untilAsked(process: SluiceProcess, more: number): Promise<void> {
    const enough = this.#files.asked().length + more;
    while (!process.hasEnded() && this.#files.asked().length < enough) await pause(20);
  }

  get #killsLeft(): number {
    return this.#options.kills - this.#report.kills;
  }

  #kill(kill: () => void): void {
    // Journals first and asks last: what was in flight at the kill is never counted too low.
    const onFile = this.#files.journaled();
    kill();
    this.#report.kills++;
    const open = new Set(this.#files.asked().filter((row) => !onFile.has(row)));
    if (!this.#files.isSealed) this.#inFlightAtKills += open.size;
  }

  async #check(expected: string): Promise<void> {
    const problem = this.#files.orderProblem();
    if (problem) this.#violate(problem);
    else if (this.#files.results() !== expected) this.#violate("other results than undisturbed");
    const { directory, environment, output } = this.#files;
    const { code, stdout, stderr } = await runSluice(["verify", output], directory, environment);
    if (code !== 0) this.#violate(`verify ends with ${code}: ${stdout}${stderr}`);
    const asked = this.#files.asked();
    const again = asked.length - job.rows;
    if (new Set(asked).size !== job.rows) this.#violate("some rows were never asked");
    if (again > this.#inFlightAtKills) {
      this.#violate(`${again} rows asked again, ${this.#inFlightAtKills} in flight at the kills`);
    }
    this.#report.askedAgain += again;
    this.#report.inFlightAtKills += this.#inFlightAtKills;
  }

  #violate(violation: string): void {
    this.#report.violations.push(`${this.#files.directory}: ${violation}`);
  }
}
