import { createReadStream } from "node:fs";
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { type Clock, sleep } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { CommandResult } from "../../foundation/subprocess.ts";
import type { Environment } from "../context.ts";
import { callProgram, type ProgramOptions, runProgram } from "../joining/programs.ts";
import type {
  LogOptions,
  Rendered,
  Scheduler,
  ShareState,
  SubmittedRun,
} from "../joining/scheduler.ts";
import { commentOf } from "./render.ts";
import { parseJobLines, parseQueue, type SlurmTask } from "./states.ts";

const defaultMaxArraySize = 1001;
const followIntervalMs = 2000;

export interface SlurmClientOptions {
  environment: Environment;
  clock: Clock;
}

/** Slurm by its own programs: `sbatch`, `squeue`, `scontrol` and `scancel`. */
export class SlurmClient implements Omit<Scheduler, "name" | "render" | "check"> {
  readonly #clock: Clock;
  readonly #programs: ProgramOptions;
  #hasJson = true;

  constructor({ environment, clock }: SlurmClientOptions) {
    this.#clock = clock;
    const hint = "call sluice on a login node of the cluster, or: apt-get install slurm-client";
    this.#programs = { environment, hint };
  }

  async submit({ text, file }: Rendered): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "sluice-sbatch-"));
    try {
      const script = join(folder, file);
      await writeFile(script, text);
      // Slurm does not make the folder, and a job without its log fails in silence.
      const output = /^#SBATCH --output="?(.*?)"?$/m.exec(text)?.[1];
      const logs = output === undefined ? undefined : resolve(output.replaceAll("%%", "%"));
      if (logs !== undefined && !dirname(logs).includes("%")) {
        await mkdir(dirname(logs), { recursive: true });
      }
      const said = await this.#run("sbatch", ["--parsable", script]);
      return said.trim().split("\n").at(-1)!.split(";")[0]!;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
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

  async look(run: SubmittedRun): Promise<ShareState[]> {
    return (await this.#tasksOf(run)).flatMap(({ shares, ...task }) =>
      shares.map((share) => ({
        ...task.state,
        share,
        submission: task.submission,
        id: `${task.submission}_${share}`,
      })),
    );
  }

  async cancel(ids: readonly string[]): Promise<void> {
    await this.#run("scancel", [...ids]);
  }

  async logs(run: SubmittedRun, { share, follow, signal, write }: LogOptions): Promise<void> {
    const read = new Map<string, number>();
    let shown: string | undefined;
    for (;;) {
      for (const file of await this.#logFiles(run, share)) {
        const from = read.get(file) ?? 0;
        const { size } = await stat(file).catch(() => ({ size: 0 }));
        if (size <= from) continue;
        read.set(file, size);
        if (file !== shown) await write(Buffer.from(`==> ${file} <==\n`));
        shown = file;
        for await (const chunk of createReadStream(file, { start: from, end: size - 1 })) {
          await write(chunk as Buffer);
        }
      }
      if (!follow && read.size === 0) throw new SluiceError("NOT_FOUND", "no worker has a log yet");
      if (!follow || signal.aborted) return;
      await sleep(this.#clock, followIntervalMs, signal).catch(() => {});
    }
  }

  /** Files of logs: those beside one another that Slurm names for tasks that it knows, else all. */
  async #logFiles(
    { location, submissions }: SubmittedRun,
    share: number | undefined,
  ): Promise<string[]> {
    const known = new Set<string>();
    const folder = join(location, "_sluice/logs");
    for (const { id } of submissions) {
      for (const { logs, shares } of await this.#jobLines(id)) {
        if (logs && (share === undefined || shares.includes(share))) known.add(logs);
      }
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

  async #tasksOf({ submissions, location }: SubmittedRun): Promise<SlurmTask[]> {
    const comment = commentOf(location);
    const ids = submissions.map(({ id }) => id);
    const isOurs = (task: SlurmTask) => ids.includes(task.submission) || task.comment === comment;
    if (this.#hasJson) {
      // Older releases ignore every filter here, so the answer may hold all jobs of the cluster.
      const { code, stdout } = await this.#call("squeue", ["--json", "--states=all"]);
      if (code === 0) return parseQueue(stdout).filter(isOurs);
      this.#hasJson = false;
    }
    const tasks: SlurmTask[] = [];
    for (const id of ids) tasks.push(...(await this.#jobLines(id)));
    return tasks.filter(isOurs);
  }

  async #jobLines(id: string): Promise<SlurmTask[]> {
    // It fails for a job that the controller has forgotten.
    const { code, stdout } = await this.#call("scontrol", ["--oneliner", "show", "job", id]);
    return code === 0 ? parseJobLines(stdout) : [];
  }

  #run(program: string, args: readonly string[]): Promise<string> {
    return runProgram(program, args, this.#programs);
  }

  #call(program: string, args: readonly string[]): Promise<CommandResult> {
    return callProgram(program, args, this.#programs);
  }
}

const short = (host: string) => host.split(".")[0]!;
