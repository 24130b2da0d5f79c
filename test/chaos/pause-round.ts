import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { type Random, randomInteger } from "../../src/foundation/random.ts";
import type { FarStore } from "./kill-round.ts";
import { RunFiles } from "./run-files.ts";
import {
  pause,
  runningIn,
  type SluiceProcess,
  startSluice,
  stillRunning,
} from "./sluice-process.ts";

/** Why processes cannot be paused so that others take them for dead; undefined: they can. */
export const missingHosts = hostsProblem();

/** What some paused processes came to. */
export interface PauseReport {
  /** Processes that were stopped while they worked, and went on later. */
  pauses: number;
  /** Those that ended before their moment came. */
  misses: number;
  /** Verifications that had a view to mend. */
  mended: number;
  violations: string[];
}

export interface PauseOptions {
  pauses: number;
  random: Random;
  /** Where the runs lie; each is removed when nothing is wrong with it. */
  folder: string;
  onProgress?(report: PauseReport): void;
  /** Where runs lie instead of in that folder. */
  far?: FarStore;
}

const rows = 40;
const failing = [3, 17, 31];
const failures = failing.map((row) => ({ row, kind: "refused" }));
const job = {
  rows,
  rowsPerTask: 8,
  workers: 2,
  model: { latencyMs: { mean: 12 }, capacity: 4, failures },
};
const run = ["run", "-c", "job.yaml", "--json"];
const overwrite = [...run, "--overwrite"];
const retryFew = [
  "retry",
  "OUT",
  "--json",
  "--set",
  `model.failures=${JSON.stringify(failures.slice(1))}`,
];
const retryAll = ["retry", "OUT", "--json", "--set", "model.failures=[]"];

/** What is done before a process is paused, what that process does, and what others do then. */
const plots: readonly { before: string[][]; sleeper: string[]; after: string[][] }[] = [
  { before: [], sleeper: run, after: [run, retryAll] },
  { before: [], sleeper: run, after: [run, retryFew, retryAll] },
  { before: [run], sleeper: retryFew, after: [retryFew, retryAll] },
  { before: [run], sleeper: retryAll, after: [retryAll, overwrite, retryAll] },
  { before: [run], sleeper: overwrite, after: [overwrite, retryAll] },
  { before: [run, retryFew], sleeper: retryAll, after: [retryAll] },
];
/** Points that are tried at once: each waits most of the time. */
const pointsAtOnce = 8;
/** A call may find the one before it at work for a moment. */
const maxCalls = 20;

/**
 * Stops processes of one host with SIGSTOP wherever they are, has processes of another host take
 * their place, retry and replace the run, and lets them go on at some time.
 */
export async function runUnderPauses(options: PauseOptions): Promise<PauseReport> {
  const report: PauseReport = { pauses: 0, misses: 0, mended: 0, violations: [] };
  let points = 0;
  const work = async () => {
    while (report.pauses < options.pauses && report.violations.length === 0) {
      const point = points++;
      const directory = join(options.folder, `pause-${point}`);
      const files = new RunFiles(directory, job, options.far?.outputOf(`pause-${point}`));
      await new PausedRun(files, options.random, report).play(plots[point % plots.length]!);
      if (report.violations.length === 0) rmSync(directory, { recursive: true });
      if (report.misses > 10 + 2 * report.pauses)
        report.violations.push("the pauses come too late");
      options.onProgress?.(report);
    }
  };
  await Promise.all(Array.from({ length: Math.min(pointsAtOnce, options.pauses) }, work));
  return report;
}

class PausedRun {
  readonly #files: RunFiles;
  readonly #random: Random;
  readonly #report: PauseReport;

  constructor(files: RunFiles, random: Random, report: PauseReport) {
    this.#files = files;
    this.#random = random;
    this.#report = report;
  }

  async play({ before, sleeper, after }: (typeof plots)[number]): Promise<void> {
    for (const command of before) await this.#carryOut(command, "early");
    const sleeping = this.#start(sleeper, "sleeper");
    await this.#untilMoment(sleeping);
    if (sleeping.hasEnded()) {
      this.#report.misses++;
      return;
    }
    sleeping.killGroup("SIGSTOP");
    this.#report.pauses++;
    const wakesAfter = randomInteger(this.#random, after.length) + 1;
    for (const [at, command] of after.entries()) {
      // It wakes while the next one leads, or when all have ended.
      const isNext = at === wakesAfter;
      if (isNext) setTimeout(() => sleeping.killGroup("SIGCONT"), this.#random.next() * 14_000);
      await this.#carryOut(command, `late-${at}`);
    }
    sleeping.killGroup("SIGCONT");
    await sleeping.ended;
    await this.#check(sleeper === overwrite);
  }

  /** Waits for the moment of a pause: at its start, or from its first request to its last steps. */
  async #untilMoment(sleeping: SluiceProcess): Promise<void> {
    const before = this.#files.asked().length;
    const isAtWork = this.#random.next() < 0.8;
    const lateMs = this.#random.next() * 900;
    while (isAtWork && !sleeping.hasEnded() && this.#files.asked().length === before)
      await pause(10);
    await pause(lateMs);
  }

  #start(words: readonly string[], host: string): SluiceProcess {
    const { directory, environment, output } = this.#files;
    const command = words.map((word) => (word === "OUT" ? output : word));
    return startSluice(command, directory, environment, onHost(host));
  }

  /** Calls a command until it is through: others of its host may be at work for a moment. */
  async #carryOut(words: readonly string[], host: string): Promise<void> {
    for (let call = 1; call <= maxCalls; call++) {
      const { code, stderr } = await this.#start(words, host).ended;
      // Rows fail as planned; a retry that another one finished has nothing to do.
      if (code === 0 || code === 1 || code === 2) return;
      if (code !== 75 && code !== 69 && code !== 74)
        return this.#violate(`exit ${code}: ${stderr}`);
      await pause(500);
    }
    this.#violate(`${words.join(" ")} is not through after ${maxCalls} calls`);
  }

  async #check(mayBeReplaced: boolean): Promise<void> {
    // Late workers of the sleeper may still be at their last steps.
    const left = await stillRunning(runningIn(this.#files.directory), 60_000);
    if (left.length > 0) return this.#violate(`processes ${left.join(", ")} did not leave`);
    await this.#verify();
    const failed = this.#files.deadLetters().map(({ index }) => index);
    const isAsRetried = failed.length === 0;
    const isAsRun = mayBeReplaced && failed.join() === failing.join();
    if (!isAsRetried && !isAsRun) this.#violate(`rows ${failed.join(", ")} failed`);
    const problem = this.#files.orderProblem(failed);
    if (problem) this.#violate(problem);
  }

  async #verify(): Promise<void> {
    for (const isFirst of [true, false]) {
      const verifying = this.#start(["verify", "OUT", "--json"], "verifier");
      const { code, stdout, stderr } = await verifying.ended;
      if (code !== 0) return this.#violate(`verify ends with ${code}: ${stdout}${stderr}`);
      const { mended } = JSON.parse(stdout) as { mended: unknown[] };
      if (mended.length > 0 && isFirst) this.#report.mended++;
      if (mended.length > 0 && !isFirst) this.#violate(`mended twice: ${stdout}`);
    }
  }

  #violate(violation: string): void {
    this.#report.violations.push(`${this.#files.directory}: ${violation}`);
  }
}

/** Runs a program as if on another machine: with a name and processes of its own. */
function onHost(host: string): string[] {
  const program = `hostname ${host} && exec "$@"`;
  return ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "sh", "-c", program, "sh"];
}

function hostsProblem(): string | undefined {
  const [command, ...words] = [...onHost("probe"), "true"];
  const { status } = spawnSync(command!, words, { stdio: "ignore" });
  return status === 0 ? undefined : "unshare cannot make namespaces here, which root may on Linux";
}
