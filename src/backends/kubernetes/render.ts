import { describeEngine } from "../../engines/registry.ts";
import { exitCodes } from "../../foundation/error-table.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { indexSetOf } from "../../foundation/index-set.ts";
import { parseMemory } from "../../foundation/memory-size.ts";
import { gpuRequest } from "../../run/job/gpu-request.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { Rendered, ShareWork } from "../joining/scheduler.ts";
import { workerScript } from "../joining/worker-script.ts";
import { yamlText } from "../joining/yaml-text.ts";

type Options = NonNullable<JobSpec["kubernetes"]>;
type Volume = NonNullable<Options["volumes"]>[number];

/** Label of the jobs and pods of one run, by which they are found. */
export const runLabel = "sluice.dev/run";
/** Annotation of a job: the shares of its indexes, in order. */
export const sharesAnnotation = "sluice.dev/shares";
export const containerName = "worker";

const defaultRetries = 6;
const defaultGraceSeconds = 60;
const defaultKeepSeconds = 86_400;
const defaultGpuResource = "nvidia.com/gpu";
/** Where another start would end the same way: the job, its input or Sluice is to blame. */
const finalCodes = [
  exitCodes.failedRows,
  exitCodes.usage,
  exitCodes.badInput,
  exitCodes.bug,
] as const;

/** Label of a run: places may have signs and lengths that labels may not. */
export function runLabelOf(location: string): string {
  return sha256Hex(location).slice(0, 32);
}

/** The Indexed Job of a run's workers. Fields are in the order in which people read them. */
export async function renderIndexedJob(work: ShareWork): Promise<Rendered> {
  const { job, location, shares } = work;
  const options = job.kubernetes!;
  const name = nameOf(job, location);
  const labels = {
    "app.kubernetes.io/name": "sluice",
    [runLabel]: runLabelOf(location),
  };
  const manifest = {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      generateName: `${name}-`,
      ...(options.namespace !== undefined && { namespace: options.namespace }),
      labels: {
        ...labels,
        ...(options.queue !== undefined && { "kueue.x-k8s.io/queue-name": options.queue }),
      },
      annotations: {
        "sluice.dev/location": location,
        [sharesAnnotation]: indexSetOf(shares),
      },
    },
    spec: {
      // Kueue lets it go once it has room in the queue.
      ...(options.queue !== undefined && { suspend: true }),
      completionMode: "Indexed",
      completions: shares.length,
      parallelism: shares.length,
      backoffLimitPerIndex: options.retries ?? defaultRetries,
      podFailurePolicy: { rules: failureRules },
      ttlSecondsAfterFinished: options.keepSeconds ?? defaultKeepSeconds,
      template: { metadata: { labels }, spec: podOf(work, options) },
    },
  };
  const file = `${name}.yaml`;
  const text = await yamlText(manifest);
  return { text, file, command: ["kubectl", "create", "-f", file] };
}

/** As Kubernetes takes it, which adds some signs. */
function nameOf({ name }: JobSpec, location: string): string {
  const text = name ?? location.split("/").filter(Boolean).at(-1) ?? "run";
  const plain = text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 40);
  return `sluice-${plain.replace(/^-|-$/g, "") || "run"}`;
}

const failureRules = [
  // A node that is drained, lost or taken away is nobody's failure.
  { action: "Ignore", onPodConditions: [{ type: "DisruptionTarget", status: "True" }] },
  {
    action: "FailIndex",
    onExitCodes: { containerName, operator: "In", values: finalCodes },
  },
] as const;

function podOf(work: ShareWork, options: Options) {
  const { volumes = [], imagePullSecrets, tolerations, user } = options;
  return {
    restartPolicy: "Never",
    terminationGracePeriodSeconds: options.gracePeriodSeconds ?? defaultGraceSeconds,
    serviceAccountName: options.serviceAccount,
    priorityClassName: options.priorityClass,
    imagePullSecrets: imagePullSecrets?.map((name) => ({ name })),
    ...{ nodeSelector: options.nodeSelector, tolerations },
    securityContext: user === undefined ? undefined : contextOf(user),
    containers: [containerOf(work, options)],
    ...(volumes.length > 0 && { volumes: volumes.map(volumeOf) }),
  };
}

/** With the container's own, what the Pod Security Standard "restricted" asks for. */
const contextOf = (user: number) => ({
  runAsNonRoot: true,
  runAsUser: user,
  runAsGroup: user,
  // Volumes are made writable for that user.
  fsGroup: user,
  fsGroupChangePolicy: "OnRootMismatch",
  seccompProfile: { type: "RuntimeDefault" },
});

function containerOf(work: ShareWork, options: Options) {
  const { env = {}, envFrom, volumes = [] } = options;
  const variables = Object.entries(env).map(([name, value]) => {
    if (typeof value === "string") return { name, value };
    const { key } = value;
    return "secret" in value
      ? { name, valueFrom: { secretKeyRef: { name: value.secret, key } } }
      : { name, valueFrom: { configMapKeyRef: { name: value.configMap, key } } };
  });
  const resources = resourcesOf(work.job, options);
  return {
    name: containerName,
    image: options.image,
    command: ["/bin/sh", "-c", workerScript(work, "JOB_COMPLETION_INDEX", options)],
    ...(variables.length > 0 && { env: variables }),
    envFrom: envFrom?.map((from) =>
      "secret" in from
        ? { secretRef: { name: from.secret } }
        : { configMapRef: { name: from.configMap } },
    ),
    ...(Object.keys(resources).length > 0 && { resources }),
    ...(options.user !== undefined && {
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
    }),
    ...(volumes.length > 0 && {
      volumeMounts: volumes.map(({ path, subPath, readOnly }, at) => ({
        name: `volume-${at}`,
        mountPath: path,
        ...{ subPath, readOnly },
      })),
    }),
  };
}

/** What a worker books. Without a limit of processor time, it may use what is idle beside it. */
function resourcesOf({ workers, model }: JobSpec, options: Options) {
  const { cpu, memory, gpu } = workers;
  const needed = describeEngine(model).devices?.(model)?.perWorker;
  // Which kind, `kubernetes.nodeSelector` says.
  const gpus = gpu === undefined ? needed : (gpuRequest(gpu).count ?? needed ?? 1);
  const bytes = memory && { memory: `${Math.ceil(parseMemory(memory) / 2 ** 20)}Mi` };
  const requests = { ...(cpu !== undefined && { cpu: `${Math.round(cpu * 1000)}m` }), ...bytes };
  const limits = {
    ...bytes,
    ...(gpus !== undefined && { [options.gpuResource ?? defaultGpuResource]: `${gpus}` }),
  };
  return {
    ...(Object.keys(requests).length > 0 && { requests }),
    ...(Object.keys(limits).length > 0 && { limits }),
  };
}

function volumeOf({ claim, secret, configMap, hostPath, emptyDir }: Volume, at: number) {
  const name = `volume-${at}`;
  if (claim !== undefined) return { name, persistentVolumeClaim: { claimName: claim } };
  if (secret !== undefined) return { name, secret: { secretName: secret } };
  if (configMap !== undefined) return { name, configMap: { name: configMap } };
  if (hostPath !== undefined) return { name, hostPath: { path: hostPath } };
  return { name, emptyDir: { sizeLimit: emptyDir } };
}
