import { createInterface } from "node:readline";
import { type Channel, objectOfLine } from "../../foundation/channel.ts";
import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import {
  type LeashEnd,
  type LeashedProcess,
  startLeashed,
} from "../../foundation/leashed-process.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { Spawn } from "../../foundation/subprocess.ts";
import type { FromWorker, ToWorker } from "../../run/worker/protocol.ts";

/** A node of a cluster, as the bridge tells of it. */
export interface RayNode {
  id: string;
  address: string;
  alive: boolean;
  /** What it has in all, by Ray's names: `CPU`, `GPU`, `memory`, and the cluster's own. */
  resources: Readonly<Record<string, number>>;
  labels: Readonly<Record<string, string>>;
  /** When it will be taken away, in milliseconds of Unix time; 0 = unknown; null = stays. */
  drainsAt: number | null;
}

/** What a host books on its node. */
export interface HostResources {
  cpu: number;
  gpu: number;
  memoryBytes?: number;
  /** Ray's name of a kind of accelerator. */
  acceleratorType?: string;
  custom: Readonly<Record<string, number>>;
}

/** A host to start: an actor with one worker below it. */
export interface HostStart {
  resources: HostResources;
  strategy: "SPREAD" | "PACK";
  /** A node that it should be on, if there is room. */
  near?: string;
  /** Nodes that it must not be on. */
  avoid: readonly string[];
  labels: Readonly<Record<string, string>>;
  /** Arguments of `sluice`. */
  arguments: readonly string[];
  environment: Readonly<Record<string, string>>;
  /** Working directory, if the node has it. */
  directory: string;
}

/** A host's life, as promises that never reject. */
export interface Host {
  /** Resolves when its worker runs, or cannot run. */
  readonly started: Promise<HostStarted | HostRefused>;
  readonly ended: Promise<HostEnd>;
  readonly channel: Channel<ToWorker, FromWorker>;
  kill(): void;
}

interface HostStarted {
  node: string;
  address: string;
}

interface HostRefused {
  refused: string;
  /** Other hosts would be refused as well. */
  isFinal?: boolean | undefined;
  /** The node that cannot run workers. */
  node?: string | undefined;
}

interface HostEnd {
  reason: string;
  /** It is gone with its node or with the connection to it: its rows are not to blame. */
  isLost: boolean;
  /** The node that is probably gone. */
  suspect?: string;
}

/** How the bridge connects. */
export interface ClusterOptions {
  /** Default: `RAY_ADDRESS`, or the cluster of this machine. */
  address?: string | undefined;
  /** How nodes get Sluice. */
  software: "auto" | "send" | "installed";
  runtimeEnv: Readonly<Record<string, unknown>>;
  /** Folder in which that is put together; it is made once and kept. */
  staging: string;
  /** Node.js, as pip installs it on nodes without. */
  nodePackage: string;
  /** Places of Node.js that nodes may have. */
  nodes: readonly string[];
  /** A host that does not answer for this long is lost. */
  silenceSeconds: number;
}

export interface BridgeOptions {
  /** The command line of the bridge. */
  command: readonly string[];
  environment: Readonly<Record<string, string | undefined>>;
  clock: Clock;
  /** Receives Ray's messages and the log lines of workers. */
  logger: Logger;
  spawn?: Spawn;
}

/** Messages from the bridge; `lines` of a host are messages of its worker. */
type FromBridge =
  | { type: "cluster-ready"; ray: string; nodes: RayNode[] }
  | { type: "cluster-failed"; problem: keyof typeof problems; reason: string }
  | { type: "cluster-nodes"; nodes: RayNode[] }
  | ({ type: "host-ready"; host: string } & HostStarted)
  | ({ type: "host-refused"; host: string; reason: string } & Omit<HostRefused, "refused">)
  | ({ type: "host-end"; host: string } & HostEnd)
  | { type: "lines" | "logs"; host: string; lines: string[] };

/** What can keep the bridge from a cluster. */
const problems = {
  missing: "RAY_MISSING",
  unreachable: "RAY_UNREACHABLE",
  setup: "RAY_SETUP_FAILED",
} as const;
/** The shell's status of a program that it cannot find. */
const notFound = 127;
/** Time that the bridge has to leave the cluster. */
const leaveMs = 3000;
/** Lines of the bridge's own output that explain its end. */
const maxToldLines = 5;
/** Lines that Node prints below an error's own line. */
const belowError = /^(\s+at |Node\.js v|\s*$)/;

/**
 * The connection to a Ray cluster: a Python process that starts hosts there and passes on lines. It
 * never outlives this process, and its hosts never outlive it.
 */
export class RayBridge {
  readonly #process: LeashedProcess;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #hosts = new Map<string, BridgedHost>();
  readonly #opened = Promise.withResolvers<string>();
  readonly #said: string[] = [];
  #nodes: readonly RayNode[] = [];
  #onNodes: (nodes: readonly RayNode[]) => void = () => {};
  #hosted = 0;
  #isOpen = false;
  #isClosing = false;
  /** Resolves when it is gone, with the error if that was not asked for; never rejects. */
  readonly ended: Promise<SluiceError | undefined>;

  constructor(options: BridgeOptions) {
    const { clock, logger, environment, spawn } = options;
    const [program, ...args] = options.command;
    this.#clock = clock;
    this.#logger = logger;
    const leash = { environment, clock, ...(spawn && { spawn }) };
    this.#process = startLeashed(program!, args, leash);
    createInterface({ input: this.#process.stdout }).on("line", (line) => this.#hear(line));
    createInterface({ input: this.#process.stderr }).on("line", (line) => {
      this.#said.push(line);
      if (this.#said.length > maxToldLines) this.#said.shift();
      logger.log("debug", line);
    });
    this.#opened.promise.catch(() => {});
    this.ended = this.#process.ended.then((end) => this.#end(end));
  }

  /** All nodes that the cluster has now. */
  get nodes(): readonly RayNode[] {
    return this.#nodes.filter(({ alive }) => alive);
  }

  /**
   * Connects to the cluster, and sees to the software of its nodes.
   *
   * @returns the version of Ray.
   * @throws SluiceError `RAY_MISSING`, `RAY_UNREACHABLE` or `RAY_SETUP_FAILED`.
   */
  open(options: ClusterOptions): Promise<string> {
    this.#send({ type: "cluster-open", ...options });
    return this.#opened.promise;
  }

  /** Calls back at each change of the nodes; only one listener. */
  onNodes(listener: (nodes: readonly RayNode[]) => void): void {
    this.#onNodes = listener;
  }

  start(start: HostStart): Host {
    const name = String(this.#hosted++);
    const { memoryBytes, acceleratorType, ...booked } = start.resources;
    const host = new BridgedHost({
      send: (line) => this.#send({ type: "lines", host: name, lines: [line] }),
      kill: () => this.#send({ type: "host-kill", host: name }),
    });
    this.#hosts.set(name, host);
    void host.ended.then(() => this.#hosts.delete(name));
    this.#send({
      type: "host-start",
      host: name,
      resources: { ...booked, memory: memoryBytes, accelerator: acceleratorType },
      strategy: start.strategy,
      near: start.near,
      avoid: start.avoid,
      labels: start.labels,
      start: {
        arguments: start.arguments,
        environment: start.environment,
        directory: start.directory,
        // A worker that computes itself holds its GPU: the next one must not wait for it.
        grace: start.resources.gpu > 0 ? 0 : orphanGraceSeconds,
      },
    });
    return host;
  }

  /** Leaves the cluster, which ends all hosts. */
  close(): void {
    this.#isClosing = true;
    // Before it is connected there is nothing to leave, and it listens to nobody.
    if (!this.#isOpen) return this.#process.kill();
    this.#process.stdin.end();
    const cancel = this.#clock.schedule(leaveMs, () => this.#process.kill());
    void this.ended.then(cancel);
  }

  #send(message: unknown): void {
    if (this.#process.stdin.writable) this.#process.stdin.write(`${JSON.stringify(message)}\n`);
  }

  #hear(line: string): void {
    const message = objectOfLine(line) as FromBridge | undefined;
    if (message === undefined) return this.#logger.log("debug", line);
    if (message.type === "cluster-failed") {
      this.#opened.reject(new SluiceError(problems[message.problem], message.reason));
    } else if (message.type === "cluster-ready" || message.type === "cluster-nodes") {
      this.#nodes = message.nodes;
      this.#onNodes(this.nodes);
      if (message.type === "cluster-ready") {
        this.#isOpen = true;
        this.#opened.resolve(message.ray);
      }
    } else {
      this.#hearOf(message);
    }
  }

  #hearOf(message: Extract<FromBridge, { host: string }>): void {
    const host = this.#hosts.get(message.host);
    if (message.type === "logs") {
      for (const line of message.lines) this.#logger.log("info", line);
      host?.noteLog(message.lines);
    } else if (message.type === "lines") host?.deliver(message.lines);
    else if (message.type === "host-ready") host?.begin(message);
    else if (message.type === "host-end") host?.end(message);
    else if (message.type === "host-refused") {
      const { reason: refused, isFinal, node } = message;
      host?.begin({ refused, isFinal, node });
      host?.end({ reason: refused, isLost: false });
    }
  }

  #end({ how, code }: LeashEnd): SluiceError | undefined {
    const said = this.#said.length === 0 ? "" : `: ${this.#said.at(-1)}`;
    if (code === notFound)
      this.#opened.reject(new SluiceError("RAY_MISSING", "there is no Python"));
    const error = new SluiceError("RAY_BRIDGE_DIED", `the bridge ${how}${said}`);
    this.#opened.reject(error);
    for (const host of this.#hosts.values()) host.end({ reason: error.message, isLost: true });
    return this.#isClosing ? undefined : error;
  }
}

/** Time that a worker has to write what it has if its actor dies. */
const orphanGraceSeconds = 8;

class BridgedHost implements Host {
  readonly #started = Promise.withResolvers<HostStarted | HostRefused>();
  readonly #ended = Promise.withResolvers<HostEnd>();
  readonly started = this.#started.promise;
  readonly ended = this.#ended.promise;
  readonly channel: Channel<ToWorker, FromWorker>;
  readonly kill: () => void;
  #listener: ((message: FromWorker) => void) | undefined;
  #onClose: (error?: Error) => void = () => {};
  readonly #early: string[] = [];
  #lastLog = "";

  constructor(way: { send(line: string): void; kill(): void }) {
    this.kill = way.kill;
    this.channel = {
      send: (message) => way.send(JSON.stringify(message)),
      onMessage: (listener) => {
        this.#listener = listener;
        this.deliver(this.#early.splice(0));
      },
      onClose: (listener) => {
        this.#onClose = listener;
      },
      close: () => way.kill(),
    };
  }

  begin(start: HostStarted | HostRefused): void {
    this.#started.resolve(start);
  }

  deliver(lines: readonly string[]): void {
    if (!this.#listener) return void this.#early.push(...lines);
    for (const line of lines) {
      const message = objectOfLine(line);
      if (message) this.#listener(message as unknown as FromWorker);
      else this.#onClose(new SluiceError("PROTOCOL", `no JSON object: ${line.slice(0, 200)}`));
    }
  }

  noteLog(lines: readonly string[]): void {
    this.#lastLog = lines.findLast((line) => !belowError.test(line)) ?? this.#lastLog;
  }

  end({ reason, isLost, ...rest }: HostEnd): void {
    const isOrdinary = isLost || reason === "left with code 0" || this.#lastLog === "";
    const why = isOrdinary ? reason : `${reason}: ${this.#lastLog}`;
    this.#started.resolve({ refused: why });
    this.#ended.resolve({ ...rest, reason: why, isLost });
  }
}
