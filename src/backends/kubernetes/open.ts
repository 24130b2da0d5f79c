import { systemClock } from "../../foundation/clock.ts";
import { gpuRequest } from "../../run/job/gpu-request.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { BackendContext, OpenBackend } from "../context.ts";
import { joiningBackend, ownMachines } from "../joining/joining.ts";
import { assertSeen } from "../joining/places.ts";
import { KubernetesClient } from "./client.ts";
import { renderIndexedJob } from "./render.ts";

/** Pods of a Kubernetes cluster, one a worker, as an Indexed Job. */
export function openKubernetes({ environment }: BackendContext): OpenBackend {
  const client = new KubernetesClient({ environment, clock: systemClock });
  return joiningBackend({
    name: "kubernetes",
    render: renderIndexedJob,
    async check(job) {
      assertSeen(job, (place) => isMounted(job, place), mountHint);
      const first = { generation: 1, takers: 1, shares: [0], program: ownMachines.program };
      const rendered = await renderIndexedJob({ ...first, job, location: job.output.path });
      await client.assertAccepted(rendered);
    },
    notices: gpuNotices,
    client,
  });
}

/** Clusters have no common names for kinds of GPUs. */
function gpuNotices({ workers: { gpu }, kubernetes }: JobSpec): string[] {
  const kind = gpu === undefined ? undefined : gpuRequest(gpu).kind;
  if (kind === undefined || kubernetes?.nodeSelector) return [];
  const detail = "pods get GPUs of any kind unless kubernetes.nodeSelector names the nodes";
  return [`GPUs of kind ${kind}: ${detail}`];
}

/** True for places below a volume that outlives a pod. */
function isMounted({ kubernetes }: JobSpec, place: string): boolean {
  const { volumes = [] } = kubernetes ?? {};
  return volumes.some(({ path, claim, hostPath }) => {
    const isKept = claim !== undefined || hostPath !== undefined;
    return isKept && `${place}/`.startsWith(path.endsWith("/") ? path : `${path}/`);
  });
}

const mountHint =
  "use s3://bucket/out, or mount a claim that this machine mounts too, " +
  "by kubernetes.volumes: [{path: /data, claim: NAME}]";
