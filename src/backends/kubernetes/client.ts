import type { Clock } from "../../foundation/clock.ts";
import { wholeLog, writeLogs } from "../joining/logs.ts";
import {
  type ClientOptions,
  type ProgramOptions,
  runProgram,
  withSentFile,
} from "../joining/programs.ts";
import type { LogOptions, Rendered, SchedulerClient, SubmittedRun } from "../joining/scheduler.ts";
import { containerName, runLabel, runLabelOf } from "./render.ts";
import { type KubernetesWorker, parseRefusals, parseWorkers } from "./states.ts";

/** A cluster by its own client, `kubectl`, with that one's configuration. */
export class KubernetesClient implements SchedulerClient {
  readonly #clock: Clock;
  readonly #programs: ProgramOptions;

  constructor({ environment, clock }: ClientOptions) {
    this.#clock = clock;
    const hint = "install kubectl, and see that kubectl get pods works here";
    this.#programs = { environment, hint };
  }

  /** Most indexes that a job may have. */
  async maxShares(): Promise<number> {
    return 10_000;
  }

  /** @throws SluiceError in the cluster's words if it would refuse a job; nothing is created. */
  async assertAccepted(rendered: Rendered): Promise<void> {
    await this.#create(rendered, "--dry-run=server");
  }

  async submit(rendered: Rendered): Promise<string> {
    const { metadata } = JSON.parse(await this.#create(rendered, "-o", "json"));
    return `${metadata.namespace}/${metadata.name}`;
  }

  #create(rendered: Rendered, ...more: string[]): Promise<string> {
    return withSentFile(rendered, (path) => this.#kubectl("create", "-f", path, ...more));
  }

  /** Those in the namespaces of recorded jobs, and in the one that the job names. */
  async look({ location, submissions, job }: SubmittedRun): Promise<KubernetesWorker[]> {
    const selector = `${runLabel}=${runLabelOf(location)}`;
    const about = ["jobs,pods", "--selector", selector, "-o", "json"];
    const namespaces = new Set(byNamespace(submissions.map(({ id }) => id)).keys());
    const named = job.kubernetes?.namespace;
    if (named !== undefined) namespaces.add(named);
    // A job without a namespace goes to the one that kubectl is set to; its record names that.
    const wheres = namespaces.size === 0 ? [[]] : [...namespaces].map(place);
    const texts = await Promise.all(
      wheres.map((where) => this.#kubectl("get", ...about, ...where)),
    );
    const workers = texts.flatMap(parseWorkers);
    await this.#explain(workers);
    return workers;
  }

  /** Says why workers have no pods, if that was refused. */
  async #explain(workers: readonly KubernetesWorker[]): Promise<void> {
    const silent = workers.filter(
      ({ state, pod, reason }) => state === "pending" && pod === undefined && reason === undefined,
    );
    const about = ["--field-selector", "reason=FailedCreate,involvedObject.kind=Job", "-o", "json"];
    for (const namespace of byNamespace(silent.map(({ submission }) => submission)).keys()) {
      // Who may not read events only lacks the reason.
      const events = this.#kubectl("get", "events", ...about, ...place(namespace));
      const refusals = parseRefusals(await events.catch(() => '{"items":[]}'));
      for (const worker of silent) Object.assign(worker, refusals.get(worker.submission));
    }
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
      (await this.look(run)).flatMap(({ pod, share }) => {
        const isAsked = options.share === undefined || options.share === share;
        return isAsked && pod !== undefined ? wholeLog(pod, () => this.#logOf(pod)) : [];
      }),
    );
  }

  /** Empty if the container has not begun, or the pod is gone. */
  async #logOf(pod: string): Promise<string> {
    const [namespace, name] = pod.split("/");
    const about = [...place(namespace!), "--container", containerName];
    try {
      return await this.#kubectl("logs", name!, ...about);
    } catch (thrown) {
      if (/waiting to start|NotFound/.test((thrown as Error).message)) return "";
      throw thrown;
    }
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
