import { indexesIn } from "../../foundation/index-set.ts";
import type { ShareState } from "../joining/scheduler.ts";
import { containerName, sharesAnnotation } from "./render.ts";

/** Label of pods and annotation of old ones: the index in their job. */
const indexKey = "batch.kubernetes.io/job-completion-index";
const jobNameLabel = "batch.kubernetes.io/job-name";
/** A container that waits so waits until somebody acts. */
const stuckReasons = new RegExp(
  `^(${[
    ...["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"],
    ...["CreateContainerConfigError", "CreateContainerError", "RunContainerError"],
  ].join("|")})$`,
);

/** What is read of `kubectl get jobs,pods -o json`. */
interface Listed {
  items: (ListedJob | ListedPod)[];
}

interface Metadata {
  name: string;
  namespace: string;
  creationTimestamp: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
}

interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
}

interface ListedJob {
  kind: "Job";
  metadata: Metadata;
  spec: { suspend?: boolean };
  status: { completedIndexes?: string; failedIndexes?: string; conditions?: Condition[] };
}

interface ListedPod {
  kind: "Pod";
  metadata: Metadata;
  spec: { nodeName?: string };
  status: {
    phase: string;
    reason?: string;
    conditions?: Condition[];
    containerStatuses?: {
      name: string;
      state?: {
        waiting?: { reason?: string; message?: string };
        terminated?: { exitCode: number; reason?: string };
      };
    }[];
  };
}

/** What is read of `kubectl get events -o json`. */
interface ListedEvents {
  items: {
    metadata: { namespace: string };
    involvedObject: { name: string };
    message: string;
    lastTimestamp: string;
  }[];
}

/** A worker, with the pod that is, or was last, its process. */
export interface KubernetesWorker extends ShareState {
  pod: string | undefined;
}

/**
 * The workers of a run: one for each index of its jobs, in the state of its newest pod.
 *
 * @param text the answer of `kubectl get jobs,pods -o json`.
 */
export function parseWorkers(text: string): KubernetesWorker[] {
  const { items } = JSON.parse(text) as Listed;
  const pods = newestPods(items.filter((item): item is ListedPod => item.kind === "Pod"));
  const jobs = items.filter((item): item is ListedJob => item.kind === "Job");
  return jobs.flatMap((job) => workersOf(job, pods));
}

/**
 * Why pods of jobs could not be created: by a quota, an admission, or for what a namespace lacks.
 *
 * @param text the answer of `kubectl get events -o json` for events of that kind.
 * @returns the newest reason of each job.
 */
export function parseRefusals(text: string): Map<string, Pick<ShareState, "reason" | "blockedBy">> {
  const { items } = JSON.parse(text) as ListedEvents;
  const inOrder = items.toSorted((a, b) => (a.lastTimestamp < b.lastTimestamp ? -1 : 1));
  return new Map(
    inOrder.map(({ metadata, involvedObject, message }) => {
      // Each try names another pod.
      const words = message.replace(/^Error creating: (pods "[^"]*" is )?/, "");
      const blockedBy = words.includes("exceeded quota") ? ("room" as const) : ("start" as const);
      const reason = `no pod can be created: ${words}`;
      return [`${metadata.namespace}/${involvedObject.name}`, { reason, blockedBy }];
    }),
  );
}

/** By job and index. */
function newestPods(pods: readonly ListedPod[]): Map<string, ListedPod> {
  const newest = new Map<string, ListedPod>();
  for (const pod of pods) {
    const { labels = {}, annotations = {}, creationTimestamp } = pod.metadata;
    const index = annotations[indexKey] ?? labels[indexKey];
    const key = `${labels[jobNameLabel] ?? labels["job-name"]}/${index}`;
    const before = newest.get(key)?.metadata.creationTimestamp;
    if (before === undefined || before <= creationTimestamp) newest.set(key, pod);
  }
  return newest;
}

function workersOf(job: ListedJob, pods: ReadonlyMap<string, ListedPod>): KubernetesWorker[] {
  const { name, namespace, annotations = {} } = job.metadata;
  const shares = [...indexesIn(annotations[sharesAnnotation] ?? "")];
  const completed = new Set(indexes(job.status.completedIndexes));
  const failed = new Set(indexes(job.status.failedIndexes));
  return shares.map((share, index) => {
    const pod = pods.get(`${name}/${index}`);
    const state = completed.has(index)
      ? { ...facts(pod), state: "successful" as const, exitCode: 0 }
      : failed.has(index)
        ? { ...facts(pod), state: "failed" as const }
        : openState(job, pod);
    return {
      ...state,
      ...{ share, submission: `${namespace}/${name}`, id: `${name}-${index}` },
      pod: pod && `${namespace}/${pod.metadata.name}`,
    };
  });
}

type State = Omit<ShareState, "share" | "submission" | "id">;

function openState(job: ListedJob, pod: ListedPod | undefined): State {
  const isOver = (job.status.conditions ?? []).find(
    ({ type, status }) => status === "True" && /^(Complete|Failed)$/.test(type),
  );
  if (pod?.status.phase === "Running") return { ...facts(pod), state: "running" };
  if (pod?.status.phase === "Succeeded") return { ...facts(pod), state: "successful" };
  if (job.metadata.deletionTimestamp !== undefined) {
    // A pod that is still there may write what it has.
    const isThere = pod?.status.phase === "Pending";
    return { ...facts(pod), state: isThere ? "running" : "canceled" };
  }
  if (isOver) return { ...facts(pod), state: "failed" };
  if (pod?.status.phase === "Pending") return waitingState(pod);
  // Its pod failed, and the next one comes after a growing wait; or it has none yet.
  if (job.spec.suspend) {
    const reason = "the job is suspended: its queue has not admitted it";
    return { state: "pending", reason, blockedBy: "room" };
  }
  return { state: "pending", ...(pod && { reason: `started again after: ${howEnded(pod)}` }) };
}

function waitingState({ status, spec }: ListedPod): State {
  const place = spec.nodeName === undefined ? {} : { node: spec.nodeName };
  const waiting = workerStatus(status)?.state?.waiting;
  if (waiting?.reason !== undefined && stuckReasons.test(waiting.reason)) {
    const reason = [waiting.reason, waiting.message].filter(Boolean).join(": ");
    return { state: "pending", ...place, reason, blockedBy: "start" };
  }
  const unplaced = (status.conditions ?? []).find(
    ({ type, status }) => type === "PodScheduled" && status === "False",
  );
  if (unplaced?.reason === "Unschedulable") {
    return { state: "pending", reason: `Unschedulable: ${unplaced.message}`, blockedBy: "room" };
  }
  const reason = waiting?.reason ?? unplaced?.reason;
  return { state: "pending", ...place, ...(reason !== undefined && { reason }) };
}

/** Node, exit code and reason of a pod, as far as it has them. */
function facts(pod: ListedPod | undefined): Pick<State, "node" | "exitCode" | "reason"> {
  if (pod === undefined) return {};
  const { spec, status } = pod;
  const ended = workerStatus(status)?.state?.terminated;
  const disrupted = (status.conditions ?? []).find(
    (it) => it.type === "DisruptionTarget" && it.status === "True",
  );
  const ordinary = /^(Error|Completed)$/;
  const reason =
    status.reason ??
    disrupted?.reason ??
    (ended?.reason !== undefined && !ordinary.test(ended.reason) ? ended.reason : undefined);
  return {
    ...(spec.nodeName !== undefined && { node: spec.nodeName }),
    ...(ended && { exitCode: ended.exitCode }),
    ...(reason !== undefined && { reason }),
  };
}

function howEnded(pod: ListedPod): string {
  const { reason, exitCode, node } = facts(pod);
  const code = exitCode === undefined ? "it is gone" : `exit code ${exitCode}`;
  return `${reason ?? code}${node === undefined ? "" : ` on ${node}`}`;
}

function workerStatus({ containerStatuses = [] }: ListedPod["status"]) {
  return containerStatuses.find(({ name }) => name === containerName);
}

const indexes = (set: string | undefined) =>
  set === undefined || set === "" ? [] : indexesIn(set);
