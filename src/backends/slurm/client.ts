import { createReadStream } from "node:fs";
import { mkdir, readdir, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { Clock } from "../../foundation/clock.ts";
import { writeLogs } from "../joining/logs.ts";
import {
  type ClientOptions,
  callProgram,
  type ProgramOptions,
  runProgram,
  withSentFile,
} from "../joining/programs.ts";
import type {
  LogOptions,
  Rendered,
  SchedulerClient,
  ShareState,
  SubmittedRun,
} from "../joining/scheduler.ts";
import { commentOf } from "./render.ts";
import { parseJobLines, parseQueue, type SlurmTask } from "./states.ts";

const defaultMaxArraySize = 1001;

/** Slurm by its own programs: `sbatch`, `squeue`, `scontrol` and `scancel`. */
export class SlurmClient implements SchedulerClient {
  readonly #clock: Clock;
  readonly #programs: ProgramOptions;

  constructor({ environment, clock }: ClientOptions) {
    this.#clock = clock;
    const hint = "call sluice on a login node of the cluster, or: apt-get install slurm-client";
    this.#programs = { environment, hint };
  }

  async submit(rendered: Rendered): Promise<string> {
    const [, quote, text = ""] = /^#SBATCH --output=("?)(.*)\1$/m.exec(rendered.text) ?? [];
    const folder = dirname(quote ? text.replace(/\\(["\\])/g, "$1") : text);
    // Slurm does not make the folder, and a job without its log fails in silence. What `%j` stands
    // for is known to Slurm alone, and `%%` is a percent sign.
    if (!folder.replaceAll("%%", "").includes("%")) {
      await mkdir(resolve(folder.replaceAll("%%", "%")), { recursive: true });
    }
    const said = await withSentFile(rendered, (script) =>
      this.#run("sbatch", ["--parsable", script]),
    );
    return said.trim().split("\n").at(-1)!.split(";")[0]!;
  }

  async maxShares(): Promise<number> {
    const said = await this.#run("scontrol", ["show", "config"]);
    // The size is one more than the highest index.
    return Number(/^MaxArraySize\s*=\s*(\d+)/m.exec(said)?.[1] ?? defaultMaxArraySize);
  }

  /** Whether a node of the cluster is another machine than `host`. */
  async hasOtherHosts(host: string): Promise<boolean> {
    const said = await this.#run("scontrol", ["--oneliner", "show", "nodes"]);
    const hosts = [...said.matchAll(/\bNodeHostName=(\S+)/g)].map(([, name]) => short(name!));
    return hosts.some((name) => name !== short(host));
  }

  async look({ submissions, location }: SubmittedRun): Promise<ShareState[]> {
    const comment = commentOf(location);
    const ids = submissions.map(({ id }) => id);
    return (await this.#tasks())
      .filter((task) => ids.includes(task.submission) || task.comment === comment)
      .flatMap(({ shares, submission, state }) =>
        shares.map((share) => ({ ...state, share, submission, id: `${submission}_${share}` })),
      );
  }

  async cancel(ids: readonly string[]): Promise<void> {
    await this.#run("scancel", [...ids]);
  }

  logs(run: SubmittedRun, options: LogOptions): Promise<void> {
    return writeLogs(options, this.#clock, async () =>
      (await this.#logFiles(run, options.share)).map((file) => ({
        name: file,
        readFrom: (offset) => readFrom(file, offset),
      })),
    );
  }

  /** Files of logs: those beside one another that Slurm names for tasks that it knows, else all. */
  async #logFiles(
    { location, submissions }: SubmittedRun,
    share: number | undefined,
  ): Promise<string[]> {
    const known = new Set<string>();
    const folder = join(location, "_sluice/logs");
    const ids = submissions.map(({ id }) => id);
    // The files are there without the controller, too.
    for (const { submission, logs, shares } of await this.#jobLines().catch(() => [])) {
      const isAsked = share === undefined || shares.includes(share);
      if (logs && isAsked && ids.includes(submission)) known.add(logs);
    }
    const pattern = /^slurm-(\d+)-(\d+)\.log$/;
    for (const name of await readdir(folder).catch(() => [])) {
      const [, , index] = pattern.exec(name) ?? [];
      if (index !== undefined && (share === undefined || Number(index) === share))
        known.add(join(folder, name));
    }
    const number = new Intl.Collator("en", { numeric: true });
    return [...known].sort((a, b) => number.compare(basename(a), basename(b)));
  }

  /** Those of all jobs: older releases ignore every filter here. */
  async #tasks(): Promise<SlurmTask[]> {
    const args = ["--json", "--states=all"];
    const { code, stdout } = await callProgram("squeue", args, this.#programs);
    // It may have no JSON, or no controller: then there are no lines either.
    return code === 0 ? parseQueue(stdout) : await this.#jobLines();
  }

  async #jobLines(): Promise<SlurmTask[]> {
    return parseJobLines(await this.#run("scontrol", ["--all", "--oneliner", "show", "job"]));
  }

  #run(program: string, args: readonly string[]): Promise<string> {
    return runProgram(program, args, this.#programs);
  }
}

/** What was added to a file, as far as it goes now; nothing of a file that is not there. */
async function* readFrom(file: string, offset: number): AsyncIterable<Buffer> {
  const { size } = await stat(file).catch(() => ({ size: 0 }));
  if (size > offset) yield* createReadStream(file, { start: offset, end: size - 1 });
}

const short = (host: string) => host.split(".")[0]!;
