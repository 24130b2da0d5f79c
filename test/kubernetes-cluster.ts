import { type ChildProcess, execFile, spawn } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, request, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type KubernetesProgram, kubernetesProgram } from "../scripts/kubernetes.ts";
import { freePorts } from "./free-ports.ts";
import { sluiceProgram } from "./sluice-program.ts";

/** What is read of a pod. */
interface Pod {
  metadata: {
    name: string;
    namespace: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    deletionTimestamp?: string;
    deletionGracePeriodSeconds?: number;
  };
  spec: {
    nodeName?: string;
    nodeSelector?: Record<string, string>;
    containers: {
      name: string;
      image: string;
      command: string[];
      env?: { name: string; value?: string; valueFrom?: ValueFrom }[];
    }[];
  };
  status: { phase: string };
}

interface ValueFrom {
  fieldRef?: { fieldPath: string };
  secretKeyRef?: { name: string; key: string };
}

const token = "of-a-test";
/** Token of a caller without any rights. */
export const strangerToken = "of-a-stranger";
/** An image that no registry has. */
export const missingImage = "missing";

/**
 * A private Kubernetes on 127.0.0.1: the real API server, its controllers of jobs and of deletions,
 * and its store. What a machine would be is played here: pods are bound to nodes, and their
 * containers run as processes of this machine, without images and mounts.
 */
export class KubernetesCluster {
  readonly directory = mkdtempSync(join(tmpdir(), "sluice-kubernetes-"));
  readonly #daemons: ChildProcess[] = [];
  readonly #nodes = new Set<string>();
  /** By namespace and name. */
  readonly #pods = new Map<string, { node: string; child: ChildProcess }>();
  readonly #settled = new Set<string>();
  #kubelet!: Server;
  #port = 0;
  #isStopped = false;
  #loop: Promise<void> = Promise.resolve();
  #fault: unknown;

  static async start(nodes: readonly string[] = ["n1", "n2"]): Promise<KubernetesCluster> {
    const cluster = new KubernetesCluster();
    await cluster.#begin(nodes);
    return cluster;
  }

  /** What a program needs to reach it. */
  get environment(): Record<string, string> {
    const programs = join(kubernetesProgram("kubectl"), "..");
    return { KUBECONFIG: this.#config(token), PATH: `${programs}:${process.env.PATH}` };
  }

  /** The environment of a caller who may do nothing. */
  get strangerEnvironment(): Record<string, string> {
    return { ...this.environment, KUBECONFIG: this.#config(strangerToken) };
  }

  /** Output of `kubectl`. */
  async kubectl(...args: string[]): Promise<string> {
    const env = { ...process.env, ...this.environment };
    const options = { env, maxBuffer: 64 * 2 ** 20 };
    // Not in turn with this process, which plays the machines meanwhile.
    return (await promisify(execFile)(kubernetesProgram("kubectl"), args, options)).stdout;
  }

  /** Processes of containers on a node, by the names of their pods. */
  processesOn(node: string): Map<string, number> {
    const found = [...this.#pods].filter(([, it]) => it.node === node && isAlive(it.child));
    return new Map(found.map(([key, { child }]) => [key, child.pid!]));
  }

  /** A node that is gone with all its processes: its pods are marked as controllers mark them. */
  async loseNode(node: string): Promise<void> {
    this.#nodes.delete(node);
    for (const [key, pid] of this.processesOn(node)) {
      this.#settled.add(key);
      process.kill(-pid, "SIGKILL");
      const [namespace, name] = key.split("/");
      await this.#patchStatus(namespace!, name!, {
        phase: "Failed",
        reason: "NodeLost",
        conditions: [
          { type: "DisruptionTarget", status: "True", reason: "DeletionByTaintManager" },
        ],
      });
    }
  }

  /** Waits until something holds, which is looked at ten times a second. */
  async until(holds: () => boolean | Promise<boolean>, limitMs = 60_000): Promise<void> {
    const endMs = Date.now() + limitMs;
    while (!(await holds())) {
      if (this.#fault !== undefined) throw this.#fault;
      if (Date.now() > endMs) {
        const pods = await this.kubectl("get", "jobs,pods", "-A", "-o", "wide");
        throw new Error(`waited ${limitMs} ms for ${holds}\n${pods}`);
      }
      await pause(100);
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#loop;
    for (const { child } of this.#pods.values()) if (isAlive(child)) killGroup(child, "SIGKILL");
    this.#kubelet?.close();
    this.#kubelet?.closeAllConnections();
    const living = this.#daemons.filter(isAlive);
    for (const daemon of living) daemon.kill("SIGKILL");
    await Promise.all(living.map((daemon) => once(daemon, "exit")));
    rmSync(this.directory, { recursive: true, force: true });
    if (this.#fault !== undefined) throw this.#fault;
  }

  async #begin(nodes: readonly string[]): Promise<void> {
    const [store, peer, api] = await freePorts(3);
    this.#port = api!;
    this.#startStore(store!, peer!);
    this.#startApi(store!);
    this.#writeConfigs();
    await this.until(() => this.#call("GET", "/readyz").then(isOk, () => false));
    this.#startDaemon("kube-controller-manager", [
      ...[`--kubeconfig=${this.#config(token)}`, "--leader-elect=false", "--secure-port=0"],
      "--controllers=job-controller,garbage-collector-controller,ttl-after-finished-controller",
      ...["--concurrent-gc-syncs=2", "--kube-api-qps=200", "--kube-api-burst=400"],
    ]);
    await this.#serveLogs();
    for (const node of nodes) await this.#addNode(node);
    await this.until(() => this.#call("GET", "/api/v1/namespaces/default").then(isOk));
    this.#loop = this.#playMachines().catch((fault) => {
      this.#fault = fault;
    });
  }

  #startStore(client: number, peer: number): void {
    const at = (port: number) => `http://127.0.0.1:${port}`;
    this.#startDaemon("server", [
      ...["--data-dir", join(this.directory, "store"), "--unsafe-no-fsync"],
      ...["--listen-client-urls", at(client), "--advertise-client-urls", at(client)],
      ...["--listen-peer-urls", at(peer), "--initial-advertise-peer-urls", at(peer)],
      ...["--initial-cluster", `default=${at(peer)}`],
    ]);
  }

  #startApi(store: number): void {
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const key = join(this.directory, "accounts.key");
    writeFileSync(key, privateKey.export({ type: "pkcs1", format: "pem" }));
    const tokens = join(this.directory, "tokens.csv");
    writeFileSync(tokens, `${token},admin,1,"system:masters"\n${strangerToken},stranger,2\n`);
    this.#startDaemon("kube-apiserver", [
      ...[`--etcd-servers=http://127.0.0.1:${store}`, `--secure-port=${this.#port}`],
      ...["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"],
      ...[`--cert-dir=${join(this.directory, "certificates")}`, `--token-auth-file=${tokens}`],
      ...[`--service-account-key-file=${key}`, `--service-account-signing-key-file=${key}`],
      ...["--service-account-issuer=https://test", "--authorization-mode=RBAC"],
      ...["--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"],
      "--kubelet-preferred-address-types=InternalIP",
    ]);
  }

  #startDaemon(program: KubernetesProgram, args: readonly string[]): void {
    const log = openSync(join(this.directory, `${program}.log`), "w");
    const child = spawn(kubernetesProgram(program), args, { stdio: ["ignore", log, log] });
    closeSync(log);
    this.#daemons.push(child);
    const endWithUs = () => void child.kill("SIGKILL");
    process.once("exit", endWithUs);
    child.once("exit", () => process.off("exit", endWithUs));
  }

  #config(of: string): string {
    return join(this.directory, `${of}.json`);
  }

  #writeConfigs(): void {
    for (const held of [token, strangerToken]) {
      const server = `https://127.0.0.1:${this.#port}`;
      const config = {
        clusters: [{ name: "c", cluster: { server, "insecure-skip-tls-verify": true } }],
        users: [{ name: "u", user: { token: held } }],
        contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
        "current-context": "x",
      };
      writeFileSync(this.#config(held), JSON.stringify(config));
    }
  }

  async #addNode(name: string): Promise<void> {
    this.#nodes.add(name);
    const { port: Port } = this.#kubelet.address() as AddressInfo;
    await this.#call("POST", "/api/v1/nodes", { metadata: { name } });
    await this.#call("PATCH", `/api/v1/nodes/${name}/status`, {
      status: {
        addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
        daemonEndpoints: { kubeletEndpoint: { Port } },
        conditions: [{ type: "Ready", status: "True" }],
      },
    });
  }

  /** What the API server asks a node for when a person asks it for a log. */
  async #serveLogs(): Promise<void> {
    const certificates = join(this.directory, "certificates");
    this.#kubelet = createServer(
      {
        cert: readFileSync(join(certificates, "apiserver.crt")),
        key: readFileSync(join(certificates, "apiserver.key")),
      },
      ({ url = "" }, to) => {
        const [, , namespace, name] = url.split("?")[0]!.split("/");
        const log = this.#logOf(`${namespace}/${name}`);
        to.statusCode = existsSync(log) ? 200 : 404;
        to.end(existsSync(log) ? readFileSync(log) : "");
      },
    );
    // The API server keeps connections, which may close under its next question.
    this.#kubelet.keepAliveTimeout = 0;
    this.#kubelet.listen(0, "127.0.0.1");
    await once(this.#kubelet, "listening");
  }

  #logOf(key: string): string {
    return join(this.directory, `${key.replace("/", "_")}.log`);
  }

  async #playMachines(): Promise<void> {
    const shim = join(this.directory, "bin", "sluice");
    mkdirSync(join(this.directory, "bin"));
    writeFileSync(shim, `#!/bin/sh\nexec '${process.execPath}' '${sluiceProgram}' "$@"\n`);
    chmodSync(shim, 0o755);
    while (!this.#isStopped) {
      const { items } = JSON.parse((await this.#call("GET", "/api/v1/pods")).text) as {
        items: Pod[];
      };
      for (const pod of items) await this.#play(pod);
      await pause(100);
    }
  }

  async #play(pod: Pod): Promise<void> {
    const { name, namespace, deletionTimestamp, deletionGracePeriodSeconds = 30 } = pod.metadata;
    const key = `${namespace}/${name}`;
    const held = this.#pods.get(key);
    if (deletionTimestamp !== undefined) {
      if (held && isAlive(held.child)) {
        if (this.#settled.has(key)) return;
        this.#settled.add(key);
        killGroup(held.child, "SIGTERM");
        setTimeout(
          () => killGroup(held.child, "SIGKILL"),
          deletionGracePeriodSeconds * 1000,
        ).unref();
        return;
      }
      await this.#call("DELETE", `/api/v1/namespaces/${namespace}/pods/${name}`, {
        gracePeriodSeconds: 0,
      });
      return;
    }
    if (held || this.#settled.has(key)) return;
    const node = await this.#nodeFor(pod);
    if (node !== undefined) await this.#startContainer(pod, node);
  }

  /** Each node has room for two pods, and no label but its name. */
  async #nodeFor({ metadata: { name, namespace }, spec }: Pod): Promise<string | undefined> {
    const free = [...this.#nodes].filter((node) => {
      const wanted = Object.entries(spec.nodeSelector ?? {});
      const fits = wanted.every(
        ([key, value]) => key === "kubernetes.io/hostname" && value === node,
      );
      return fits && this.processesOn(node).size < 2;
    });
    const node = free.toSorted((a, b) => this.processesOn(a).size - this.processesOn(b).size)[0];
    if (node === undefined) {
      const message = `0/${this.#nodes.size} nodes are available`;
      const condition = { type: "PodScheduled", status: "False", reason: "Unschedulable", message };
      await this.#patchStatus(namespace, name, { conditions: [condition] });
      return undefined;
    }
    await this.#call("POST", `/api/v1/namespaces/${namespace}/pods/${name}/binding`, {
      metadata: { name },
      target: { kind: "Node", name: node },
    });
    return node;
  }

  async #startContainer({ metadata, spec }: Pod, node: string): Promise<void> {
    const { name, namespace } = metadata;
    const key = `${namespace}/${name}`;
    const container = spec.containers[0]!;
    const about = { name: container.name, image: container.image, imageID: "", restartCount: 0 };
    const tell = (phase: string, state: object, ready = false) =>
      this.#patchStatus(namespace, name, {
        phase,
        containerStatuses: [{ ...about, ready, started: ready, state }],
      });
    if (container.image === missingImage) {
      this.#settled.add(key);
      await tell("Pending", { waiting: { reason: "ErrImagePull", message: "not found" } });
      return;
    }
    const environment: Record<string, string> = {
      ...(process.env as Record<string, string>),
      PATH: `${join(this.directory, "bin")}:${process.env.PATH}`,
      HOSTNAME: name,
    };
    for (const { name: variable, value, valueFrom } of container.env ?? [])
      environment[variable] = value ?? (await this.#valueOf(valueFrom!, metadata));
    const log = openSync(this.#logOf(key), "a");
    const [program, ...args] = container.command;
    const stdio = ["ignore", log, log] as const;
    const child = spawn(program!, args, { env: environment, detached: true, stdio: [...stdio] });
    closeSync(log);
    const ended = once(child, "exit");
    this.#pods.set(key, { node, child });
    await tell("Running", { running: { startedAt: new Date().toISOString() } }, true);
    void ended.then(async ([code]) => {
      const exitCode = code ?? 137;
      if (this.#isStopped || !this.#nodes.has(node)) return;
      const terminated = { exitCode, reason: exitCode === 0 ? "Completed" : "Error" };
      await tell(exitCode === 0 ? "Succeeded" : "Failed", { terminated });
    });
  }

  async #valueOf({ fieldRef, secretKeyRef }: ValueFrom, metadata: Pod["metadata"]) {
    if (fieldRef) {
      const [, kind, field] = /^metadata\.(labels|annotations)\['(.*)'\]$/.exec(
        fieldRef.fieldPath,
      )!;
      return metadata[kind as "labels" | "annotations"]![field!]!;
    }
    const { name, key } = secretKeyRef!;
    const path = `/api/v1/namespaces/${metadata.namespace}/secrets/${name}`;
    const { data } = JSON.parse((await this.#call("GET", path)).text);
    return Buffer.from(data[key], "base64").toString();
  }

  #patchStatus(namespace: string, name: string, status: object) {
    return this.#call("PATCH", `/api/v1/namespaces/${namespace}/pods/${name}/status`, { status });
  }

  async #call(
    method: string,
    path: string,
    body?: object,
  ): Promise<{ code: number; text: string }> {
    const type = method === "PATCH" ? "application/strategic-merge-patch+json" : "application/json";
    const sent = body === undefined ? "" : JSON.stringify(body);
    const asked = request({
      ...{ method, path, host: "127.0.0.1", port: this.#port, rejectUnauthorized: false },
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": type,
        // Node says none of a DELETE, whose body would be read as the next request.
        "content-length": Buffer.byteLength(sent),
      },
    });
    asked.end(sent);
    const [reply] = await once(asked, "response");
    const chunks: Buffer[] = [];
    for await (const chunk of reply) chunks.push(chunk);
    const [code, text] = [reply.statusCode, Buffer.concat(chunks).toString()];
    // What is gone meanwhile is nobody's fault.
    if (code >= 400 && code < 500 && code !== 404 && code !== 409)
      throw new Error(`${method} ${path}: ${code} ${text}`);
    return { code, text };
  }
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const isOk = ({ code }: { code: number }) => code === 200;
const isAlive = ({ exitCode, signalCode }: ChildProcess) =>
  exitCode === null && signalCode === null;

function killGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    process.kill(-child.pid!, signal);
  } catch {
    // It is gone.
  }
}
