import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { installed } from "../scripts/installing.ts";
import { findRay } from "../scripts/ray.ts";
import { killQuietly } from "./chaos/sluice-process.ts";
import { freePorts } from "./free-ports.ts";
import { writeScheduledJob } from "./scheduled-job.ts";

await installed("ray");

/** Why the tests with Ray cannot run here; undefined if they can. */
export const missingCluster: string | undefined = findRay().missing;

/** The Python of the cluster and of bridges to it. */
export const rayPython = findRay().python ?? "python3";

/** What a node has. */
export interface NodeSize {
  cpus: number;
  gpus?: number;
  resources?: Readonly<Record<string, number>>;
  labels?: Readonly<Record<string, string>>;
}

/** A node as Ray's dashboard tells of it. */
interface NodeState {
  node_id: string;
  node_ip: string;
  state: string;
}

/** An actor likewise. */
interface ActorState {
  required_resources: Record<string, number>;
}

/** A private Ray cluster on 127.0.0.x: a head and further nodes, each a process group. */
export class RayCluster {
  // Names of sockets are short.
  readonly directory = mkdtempSync("/tmp/sr-");
  readonly #groups = new Map<number, ChildProcess>();
  readonly #sizes: readonly NodeSize[];
  #ports: number[] = [];
  #started = 0;

  readonly #environment: Readonly<Record<string, string>>;
  readonly #python: string;

  private constructor(
    sizes: readonly NodeSize[],
    environment: Readonly<Record<string, string>>,
    python: string,
  ) {
    this.#sizes = sizes;
    this.#environment = { ...process.env, ...defaults, ...environment };
    this.#python = python;
  }

  /**
   * @param sizes of the head and of further nodes.
   * @param environment of the nodes, besides ours.
   * @param python that has Ray.
   */
  static async start(
    sizes: readonly NodeSize[],
    environment: Readonly<Record<string, string>> = {},
    python: string = rayPython,
  ): Promise<RayCluster> {
    const cluster = new RayCluster(sizes, environment, python);
    try {
      cluster.#ports = await freePorts(4 + sizes.length);
      cluster.#startHead();
      await until(() => isListening(cluster.#ports[0]!, cluster.addressOf(0)), "the head");
      await Promise.all(sizes.slice(1).map((_, at) => cluster.startNode(at + 1)));
      await cluster.untilAlive(sizes.length);
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  /** What jobs name as `ray.address`. */
  get address(): string {
    return `${this.addressOf(0)}:${this.#ports[0]}`;
  }

  /** Address of the dashboard. */
  get dashboard(): string {
    return `http://127.0.0.1:${this.#ports[1]}`;
  }

  /** Address of a node, whichever process stands for it. */
  addressOf(node: number): string {
    return `127.0.0.${2 + node}`;
  }

  /** Starts a node, or a new one in the place of one that was lost. */
  async startNode(node: number): Promise<void> {
    this.#spawn(node, [
      `--address=${this.address}`,
      `--dashboard-agent-listen-port=${this.#ports[4 + node]}`,
    ]);
  }

  /** Sends a signal to all processes of a node: `SIGKILL` is a power cut, `SIGSTOP` a partition. */
  signalNode(node: number, signal: NodeJS.Signals): void {
    const pid = this.#groups.get(node)?.pid;
    if (pid === undefined) return;
    for (const each of groupsBelow(pid)) killQuietly(-each, signal);
  }

  /** The id of a node's raylet. */
  rayletOf(node: number): number | undefined {
    const pid = this.#groups.get(node)?.pid;
    return pid === undefined ? undefined : descendants(pid).find((each) => isNamed(each, "raylet"));
  }

  /** Processes of a node, with what their hosts started. */
  processesOf(node: number): number[] {
    const pid = this.#groups.get(node)?.pid;
    return pid === undefined ? [] : descendants(pid);
  }

  /** Waits until the cluster counts so many living nodes. */
  async untilAlive(count: number, limitMs = 90_000): Promise<void> {
    await until(async () => (await this.nodes()).length === count, `${count} nodes`, limitMs);
  }

  /** The nodes that the head counts as alive. */
  async nodes(): Promise<NodeState[]> {
    const text = await get(`${this.dashboard}/api/v0/nodes`).catch(() => "");
    if (!text.startsWith("{")) return [];
    const all = JSON.parse(text).data?.result?.result ?? [];
    return (all as NodeState[]).filter(({ state }) => state === "ALIVE");
  }

  /** What each living actor has booked, in the order of their starts. */
  async booked(): Promise<Record<string, number>[]> {
    const alive = "filter_keys=state&filter_predicates=%3D&filter_values=ALIVE";
    const text = await get(`${this.dashboard}/api/v0/actors?detail=1&${alive}`);
    const actors = JSON.parse(text).data.result.result as ActorState[];
    return actors.map(({ required_resources: booked }) => booked);
  }

  /** Output of one of Ray's commands. */
  command(...args: string[]): string {
    const words = ["-m", "ray.scripts.scripts", ...args];
    return execFileSync(this.#python, words, { env: this.#environment, encoding: "utf8" });
  }

  /** Tells Ray that a node will be taken away, as a cloud does with spot machines. */
  async drain(node: number, seconds: number): Promise<void> {
    const { node_id: id } = (await this.nodes()).find(
      (each) => each.node_ip === this.addressOf(node),
    )!;
    this.command(
      ...["drain-node", "--address", this.address, "--node-id", id],
      ...["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "spot"],
      ...["--deadline-remaining-seconds", String(seconds)],
    );
  }

  /** The last lines of what the nodes wrote, for messages. */
  report(): string {
    const logs = readdirSync(this.directory).filter((name) => name.endsWith(".log"));
    const text = (name: string) => readFileSync(join(this.directory, name), "utf8");
    return logs.map((name) => `${name}: ${text(name).slice(-2000)}`).join("\n");
  }

  async stop(): Promise<void> {
    for (const node of this.#groups.keys()) this.signalNode(node, "SIGKILL");
    const living = [...this.#groups.values()].filter(
      ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
    );
    await Promise.all(living.map((child) => once(child, "exit")));
    // A process that was just killed may still write.
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }

  #startHead(): void {
    const [port, dashboard, client, , agent] = this.#ports;
    this.#spawn(0, [
      ...["--head", `--port=${port}`, `--ray-client-server-port=${client}`],
      ...["--dashboard-host=127.0.0.1", `--dashboard-port=${dashboard}`],
      `--dashboard-agent-listen-port=${agent}`,
    ]);
  }

  #spawn(node: number, args: readonly string[]): void {
    const { cpus, gpus = 0, resources = {}, labels = {} } = this.#sizes[node]!;
    const log = openSync(join(this.directory, `node-${node}.log`), "a");
    const label = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
    const child = spawn(
      "/bin/sh",
      [
        ...["-c", keeper, "sluice", this.#python],
        ...["-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"],
        ...["--include-log-monitor=false", "--object-store-memory=100000000", ...args],
        ...[
          `--node-ip-address=${this.addressOf(node)}`,
          `--num-cpus=${cpus}`,
          `--num-gpus=${gpus}`,
        ],
        `--resources=${JSON.stringify(resources)}`,
        ...(label.length > 0 ? ["--labels", label.join(",")] : []),
        // Nodes that share a folder take one another's sockets.
        `--temp-dir=${join(this.directory, `t${this.#started++}`)}`,
      ],
      { stdio: ["pipe", log, log], detached: true, env: this.#environment },
    );
    closeSync(log);
    this.#groups.set(node, child);
  }
}

/** Ends a node's processes with us, in whichever way we end: a pipe then ends, too. */
const keeper = '"$@" </dev/null & read -r _; kill -KILL 0';

/**
 * Nodes find the Node of this checkout, which is new enough, and no other sluice-ray. A token that
 * somebody made on this machine would turn on authentication for the head alone.
 */
const defaults = {
  RAY_AUTH_MODE: "disabled",
  PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
  PYTHONPATH: "",
  RAY_ADDRESS: "",
  // A third of what idle nodes compute is figures of themselves, which nobody reads here.
  RAY_enable_metrics_collection: "false",
  RAY_event_stats: "0",
  RAY_memory_monitor_refresh_ms: "0",
  REPORTER_UPDATE_INTERVAL_MS: "600000",
};

/** Waits until something holds, which is looked at four times a second. */
export async function until(
  holds: () => boolean | Promise<boolean>,
  what: string,
  limitMs = 60_000,
): Promise<void> {
  const endMs = Date.now() + limitMs;
  while (!(await holds())) {
    if (Date.now() > endMs) throw new Error(`waited ${limitMs} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

/** A job of rows that take 100 ms each, two at once in a worker. */
export function writeRayJob(folder: string, rows: number, address: string, workers = 3): void {
  const keys = `backend: ray
workers: { max: ${workers}, cpu: 1 }
ray: { address: "${address}", python: ${rayPython}, shared: true }
`;
  writeScheduledJob(folder, rows, keys);
}

/** Living processes below one, itself included, by their parents. */
export function descendants(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc")) {
    const parent = /^\d+$/.test(name)
      ? /^PPid:\s*(\d+)/m.exec(read(name, "status"))?.[1]
      : undefined;
    if (parent === undefined) continue;
    children.set(Number(parent), [...(children.get(Number(parent)) ?? []), Number(name)]);
  }
  const found = [root];
  for (const each of found) found.push(...(children.get(each) ?? []));
  return found;
}

/** The process groups of a process and of all below it: a worker has one of its own. */
function groupsBelow(root: number): Set<number> {
  const groups = descendants(root).map((pid) => {
    const text = read(String(pid), "stat");
    return Number(text.slice(text.lastIndexOf(")") + 2).split(" ")[2]);
  });
  return new Set([root, ...groups.filter((group) => group > 1)]);
}

/** The words of a process's command line. */
export function commandOf(pid: number): string {
  return read(String(pid), "cmdline").replaceAll("\0", " ");
}

const isNamed = (pid: number, name: string) => read(String(pid), "comm").trim() === name;

/** A file of a process; empty where it is gone. */
function read(pid: string, file: "cmdline" | "comm" | "stat" | "status"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}

/** `fetch` sends headers by which Ray takes it for a browser. */
function get(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { timeout: 5000 }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => resolve(text));
    });
    asked.on("error", reject);
    asked.on("timeout", () => asked.destroy(new Error("no answer")));
    asked.end();
  });
}

async function isListening(port: number, host: string): Promise<boolean> {
  const socket = connect(port, host);
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
