import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../foundation/clock.ts";
import type { Environment } from "../context.ts";
import { writeLogs } from "../joining/logs.ts";
import { type ProgramOptions, runProgram } from "../joining/programs.ts";
import type { LogOptions, Rendered, Scheduler, SubmittedRun } from "../joining/scheduler.ts";
import { containerName, runLabel, runLabelOf } from "./render.ts";
import { type KubernetesWorker, parseWorkers } from "./states.ts";

export interface KubernetesClientOptions {
  environment: Environment;
  clock: Clock;
}

/** A cluster by its own client, `kubectl`, with that one's configuration. */
export class KubernetesClient implements Omit<Scheduler, "name" | "render" | "check"> {
  readonly #clock: Clock;
  readonly #programs: ProgramOptions;

  constructor({ environment, clock }: KubernetesClientOptions) {
    this.#clock = clock;
    const hint = "install kubectl, and see that kubectl get pods works here";
    this.#programs = { environment, hint };
  }

  /** Most indexes that a job may have. */
  async maxShares(): Promise<number> {
    return 10_000;
  }

  /** @throws SluiceError where the caller may not start jobs in a namespace. */
  async assertMayCreate(namespace: string | undefined): Promise<void> {
    const place = namespace === undefined ? [] : ["--namespace", namespace];
    await this.#kubectl("auth", "can-i", "create", "jobs", "--quiet", ...place);
  }

  async submit({ text, file }: Rendered): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "sluice-kubectl-"));
    try {
      const path = join(folder, file);
      await writeFile(path, text);
      const { metadata } = JSON.parse(await this.#kubectl("create", "-f", path, "-o", "json"));
      return `${metadata.namespace}/${metadata.name}`;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  look(run: SubmittedRun): Promise<KubernetesWorker[]> {
    return this.#workersOf(run);
  }

  /** With time for workers to write: jobs stay until their pods are gone. */
  async cancel(ids: readonly string[]): Promise<void> {
    for (const [namespace, names] of byNamespace(ids)) {
      const how = ["--cascade=foreground", "--wait=false", "--ignore-not-found"];
      await this.#kubectl("delete", "job", ...names, ...place(namespace), ...how);
    }
  }

  logs(run: SubmittedRun, options: LogOptions): Promise<void> {
    return writeLogs(options, this.#clock, async () =>
      (await this.#workersOf(run)).flatMap(({ pod, share }) =>
        pod === undefined ? [] : { name: pod, share, read: () => this.#logOf(pod) },
      ),
    );
  }

  /** Empty where the container has not begun. */
  #logOf(pod: string): Promise<string> {
    const [namespace, name] = pod.split("/");
    const about = ["--container", containerName];
    return this.#kubectl("logs", name!, ...place(namespace!), ...about).catch(() => "");
  }

  /** Those in the namespaces of recorded jobs, and in the one that kubectl is set to. */
  async #workersOf({ location, submissions }: SubmittedRun): Promise<KubernetesWorker[]> {
    const selector = `${runLabel}=${runLabelOf(location)}`;
    const found = new Map<string, KubernetesWorker>();
    const ids = submissions.map(({ id }) => id);
    for (const namespace of [undefined, ...byNamespace(ids).keys()]) {
      const where = namespace === undefined ? [] : place(namespace);
      const about = ["jobs,pods", "--selector", selector, "-o", "json"];
      const text = await this.#kubectl("get", ...about, ...where);
      for (const worker of parseWorkers(text)) {
        found.set(`${worker.submission} ${worker.share}`, worker);
      }
    }
    return [...found.values()];
  }

  #kubectl(...args: string[]): Promise<string> {
    return runProgram("kubectl", args, this.#programs);
  }
}

const place = (namespace: string) => ["--namespace", namespace];

/** Names of jobs by their namespaces. */
function byNamespace(ids: readonly string[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const id of ids) {
    const [namespace = "", name = ""] = id.split("/");
    found.set(namespace, [...(found.get(namespace) ?? []), name]);
  }
  return found;
}
