import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { installed } from "../scripts/installing.ts";
import { missingSlurm } from "../scripts/slurm.ts";
import { freePorts } from "./free-ports.ts";
import { writeScheduledJob } from "./scheduled-job.ts";

await installed("slurm");

/** Why the tests with Slurm cannot run here; undefined if they can. */
export const missingCluster: string | undefined = missingSlurm();

interface ClusterOptions {
  /** Lines for `slurm.conf`, such as `RequeueExit=75`. */
  lines?: readonly string[];
  /** Names of the nodes, all on this machine. */
  nodes?: readonly string[];
}

/** A private Slurm on 127.0.0.1: a controller and nodes, each with two CPUs and two GPUs. */
export class SlurmCluster {
  readonly directory = mkdtempSync(join(tmpdir(), "sluice-slurm-"));
  readonly #nodes: readonly string[];
  readonly #daemons = new Map<string, ChildProcess>();

  private constructor(nodes: readonly string[]) {
    this.#nodes = nodes;
  }

  static async start({ lines = [], nodes = ["n1", "n2"] }: ClusterOptions = {}) {
    const cluster = new SlurmCluster(nodes);
    const ports = await freePorts(nodes.length + 1);
    mkdirSync(join(cluster.directory, "state"));
    for (const node of nodes) mkdirSync(join(cluster.directory, `spool-${node}`));
    writeFileSync(cluster.#config, configText(cluster.directory, nodes, ports, lines));
    cluster.#makeDevices();
    cluster.#startDaemon("slurmctld", ["-D", "-c"]);
    for (const node of nodes) cluster.startNode(node);
    await cluster.until(
      () => cluster.states().filter((state) => state === "idle").length === nodes.length,
    );
    return cluster;
  }

  get #config(): string {
    return join(this.directory, "slurm.conf");
  }

  /** What a program needs to reach it. */
  get environment(): Record<string, string> {
    return { SLURM_CONF: this.#config };
  }

  /** Output of one of Slurm's programs. */
  command(program: string, ...args: string[]): string {
    const env = { ...process.env, ...this.environment };
    return execFileSync(program, args, { env, encoding: "utf8" });
  }

  /** The states of its nodes; none while it has no controller. */
  states(): string[] {
    try {
      return this.command("sinfo", "-h", "-N", "-o", "%T").split("\n").filter(Boolean);
    } catch {
      return [];
    }
  }

  startNode(node: string): void {
    this.#startDaemon("slurmd", ["-D", "-N", node], node);
  }

  /** Stops the controller, which writes down what it knows; jobs run on without it. */
  async stopController(): Promise<void> {
    const daemon = this.#daemons.get("slurmctld")!;
    daemon.kill("SIGTERM");
    await once(daemon, "exit");
  }

  /** Starts a controller anew, which knows the jobs of the one before. */
  startController(): void {
    this.#startDaemon("slurmctld", ["-D"]);
  }

  /** Ends a node as a power cut would: its daemon, its steps and what they started. */
  killNode(node: string): void {
    for (const pid of this.processesOf(node)) kill(pid);
    this.#daemons.get(node)?.kill("SIGKILL");
  }

  /** The processes of jobs on a node, and the steps that hold them. */
  processesOf(node: string): number[] {
    const found = new Set<number>();
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      const variables = readProcess(pid, "environ").split("\0");
      const isOurs = variables.includes(`SLURM_CONF=${this.#config}`);
      if (!isOurs || !variables.includes(`SLURMD_NODENAME=${node}`)) continue;
      found.add(Number(pid));
      const parent = /^PPid:\s*(\d+)/m.exec(readProcess(pid, "status"))?.[1] ?? "";
      if (readProcess(parent, "comm").startsWith("slurmstepd")) found.add(Number(parent));
    }
    return [...found];
  }

  /** Waits until something holds, which is looked at four times a second. */
  async until(holds: () => boolean | Promise<boolean>, limitMs = 60_000): Promise<void> {
    const endMs = Date.now() + limitMs;
    while (!(await holds().valueOf())) {
      if (Date.now() > endMs)
        throw new Error(`waited ${limitMs} ms for ${holds}\n${this.report()}`);
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }

  /** The queue and the last lines of the controller, for messages. */
  report(): string {
    const log = readFileSync(join(this.directory, "slurmctld.log"), "utf8").split("\n");
    return `${this.command("squeue", "--states=all")}${log.slice(-15).join("\n")}`;
  }

  async stop(): Promise<void> {
    for (const node of this.#nodes) this.killNode(node);
    const daemons = [...this.#daemons.values()];
    for (const daemon of daemons) daemon.kill("SIGKILL");
    const living = daemons.filter(
      ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
    );
    await Promise.all(living.map((daemon) => once(daemon, "exit")));
    rmSync(this.directory, { recursive: true, force: true });
  }

  #startDaemon(program: string, args: string[], name = program): void {
    const log = join(this.directory, `${name}.log`);
    const child = spawn(program, [...args, "-f", this.#config, "-L", log], { stdio: "ignore" });
    this.#daemons.set(name, child);
    const endWithUs = () => void child.kill("SIGKILL");
    process.once("exit", endWithUs);
    child.once("exit", () => process.off("exit", endWithUs));
  }

  /** GPUs are character devices, as those of a driver are. */
  #makeDevices(): void {
    const folder = join(this.directory, "dev");
    mkdirSync(folder);
    const lines = this.#nodes.map((node) => {
      for (const index of [0, 1])
        execFileSync("mknod", [join(folder, `${node}-gpu${index}`), "c", "1", "3"]);
      return `NodeName=${node} Name=gpu Flags=nvidia_gpu_env File=${folder}/${node}-gpu[0-1]\n`;
    });
    writeFileSync(join(this.directory, "gres.conf"), lines.join(""));
  }
}

function configText(
  directory: string,
  nodes: readonly string[],
  [controller, ...ports]: readonly number[],
  lines: readonly string[],
): string {
  const host = hostname().split(".")[0]!;
  return [
    "ClusterName=sluice",
    `SlurmctldHost=${host}(127.0.0.1)`,
    `SlurmctldPort=${controller}`,
    "SlurmUser=root",
    ...["AuthType=auth/none", "CredType=cred/none", "MpiDefault=none"],
    ...["ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SelectType=select/cons_tres"],
    ...["JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none"],
    "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
    ...["SlurmdParameters=config_overrides", "ReturnToService=2", "GresTypes=gpu"],
    ...["KillWait=5", "SlurmdTimeout=10", "MinJobAge=300"],
    "SchedulerParameters=sched_min_interval=0,sched_interval=1,bf_interval=1",
    `StateSaveLocation=${directory}/state`,
    `SlurmctldPidFile=${directory}/slurmctld.pid`,
    `SlurmdSpoolDir=${directory}/spool-%n`,
    `SlurmdPidFile=${directory}/slurmd-%n.pid`,
    ...lines,
    ...nodes.map(
      (node, at) =>
        `NodeName=${node} NodeHostname=${host} NodeAddr=127.0.0.1 Port=${ports[at]} CPUs=2 RealMemory=2000 Gres=gpu:2`,
    ),
    `PartitionName=main Nodes=${nodes.join(",")} Default=YES MaxTime=INFINITE State=UP`,
    "",
  ].join("\n");
}

/** A file of a process; empty where it is gone. */
function readProcess(pid: string, file: "comm" | "environ" | "status"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

/** Writes a job of rows that take 100 ms each, two at once in a worker, into a folder. */
export function writeSlurmJob(folder: string, rows: number, more = ""): void {
  const keys = `backend: slurm
workers: { max: 2, cpu: 1, memory: 500M }
${more}`;
  writeScheduledJob(folder, rows, keys);
}
