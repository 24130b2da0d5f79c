import { describeEngine } from "../../engines/registry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { parseMemory } from "../../foundation/memory-size.ts";
import type { WorkersChoice } from "../../run/dispatch/backend.ts";
import { gpuRequest } from "../../run/job/gpu-request.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import { localPlaces } from "../joining/places.ts";
import type { HostResources, RayNode } from "./bridge.ts";

/** Rows for which one more worker pays, if neither cores nor GPUs bound it. */
const rowsPerWorker = 100_000;

/** Fewer and larger workers may leave so many more cores unused. */
const nearlyMost = 0.9;

const acceleratorPrefix = "accelerator_type:";

export function bookedBy(job: JobSpec, nodes: readonly RayNode[]): HostResources {
  const { model, workers, ray = {} } = job;
  const { devices, usesAllCores } = describeEngine(model);
  const needed = devices?.(model);
  const asked = workers.gpu === undefined ? undefined : gpuRequest(workers.gpu);
  const hasGpus = nodes.some((node) => amount(node, "GPU") > 0);
  const isWanted = asked !== undefined || (needed !== undefined && hasGpus);
  const gpu = asked?.count ?? needed?.perWorker ?? (isWanted ? 1 : 0);
  const acceleratorType = ray.acceleratorType ?? acceleratorOf(asked?.kind, nodes);
  // Ray counts cores; it does not hold a worker to them.
  const unasked = usesAllCores && gpu === 0 ? coresOfWorker(nodes) : 1;
  return {
    cpu: whole(workers.cpu ?? unasked),
    gpu,
    ...(workers.memory !== undefined && { memoryBytes: parseMemory(workers.memory) }),
    ...(acceleratorType !== undefined && { acceleratorType }),
    custom: ray.resources ?? {},
  };
}

/** How many workers a node holds if nothing else is on it. */
export function roomOn(node: RayNode, booked: HostResources): number {
  const { cpu, gpu, memoryBytes = 0, acceleratorType, custom } = booked;
  if (acceleratorType !== undefined && amount(node, acceleratorPrefix + acceleratorType) === 0) {
    return 0;
  }
  const all = { ...custom, CPU: cpu, GPU: gpu, memory: memoryBytes };
  const fits = Object.entries(all)
    .filter(([, each]) => each > 0)
    // Shares such as 0.1 of a GPU add up only nearly.
    .map(([name, each]) => Math.floor(amount(node, name) / each + 1e-9));
  return Math.min(...fits, Number.MAX_SAFE_INTEGER);
}

/** The nodes with the job's labels that hold a worker, if nothing else is on them. */
export function fitNodes(job: JobSpec, nodes: readonly RayNode[]): RayNode[] {
  const booked = bookedBy(job, nodes);
  const labels = Object.entries(job.ray?.labels ?? {});
  return nodes.filter(
    (node) =>
      labels.every(([key, value]) => node.labels[key] === value) && roomOn(node, booked) > 0,
  );
}

/**
 * The number of workers on a cluster. Without `workers.max`, a model on GPUs or on all cores gets
 * as many as the cluster holds. With a server or a fast engine, one more worker pays for each
 * 100,000 rows.
 */
export function rayWorkers(job: JobSpec, rows: number, nodes: readonly RayNode[]): WorkersChoice {
  const { max, min, memory } = job.workers;
  const booked = bookedBy(job, nodes);
  const rooms = fitNodes(job, nodes).map((node) => roomOn(node, booked));
  const room = rooms.reduce((sum, each) => sum + each, 0);
  const notices: string[] = [];
  const wanted = job.workers.gpu === undefined ? undefined : gpuRequest(job.workers.gpu).kind;
  if (wanted !== undefined && booked.acceleratorType === undefined) {
    notices.push(`workers.gpu: no node tells Ray that it has ${wanted}: any GPU is booked`);
  }
  const { usesAllCores } = describeEngine(job.model);
  const useful =
    usesAllCores || booked.gpu > 0 ? room : Math.min(room, Math.ceil(rows / rowsPerWorker));
  const workers = Math.max(max ?? useful, min ?? 1, 1);
  if (room < workers) {
    const has =
      room === 0 ? "no node of the cluster has room for a worker" : `there is room for ${room}`;
    notices.push(
      `${workers} ${workers === 1 ? "worker is" : "workers are"} asked for, each with ` +
        `${shownBooking(booked)}, and ${has} now; the others start when nodes join`,
    );
  }
  return {
    ...{ workers, notices },
    cores: Math.max(1, Math.floor(booked.cpu)),
    ...(memory !== undefined && { freeMemoryBytes: parseMemory(memory) }),
  };
}

/** Such as `5 CPUs, 1 GPU`. */
export function shownBooking(booked: HostResources): string {
  const { cpu, gpu, memoryBytes = 0, acceleratorType, custom } = booked;
  const counted = (count: number, name: string) => `${count} ${name}${count === 1 ? "" : "s"}`;
  return [
    counted(cpu, "CPU"),
    ...(gpu > 0 ? [counted(gpu, acceleratorType ?? "GPU")] : []),
    ...(memoryBytes > 0 ? [`${Math.ceil(memoryBytes / 2 ** 20)} MiB`] : []),
    ...Object.entries(custom).map(([name, count]) => `${count} ${name}`),
  ].join(", ");
}

/** The node on which `PACK` puts the next worker: the fullest one with room. */
export function fullestNode(
  nodes: readonly RayNode[],
  booked: HostResources,
  /** Workers of this run that are on a node, or on their way to it. */
  takenOn: (node: string) => number,
  avoid: readonly string[],
): string | undefined {
  const open = nodes.filter(
    (node) =>
      !avoid.includes(node.id) && node.drainsAt === null && roomOn(node, booked) > takenOn(node.id),
  );
  return open.toSorted((a, b) => takenOn(b.id) - takenOn(a.id))[0]?.id;
}

/**
 * Refuses places that only the coordinator's machine may see.
 *
 * @throws SluiceError `DIRECTORY_NOT_SHARED`.
 */
export function assertVisible(job: JobSpec, nodes: readonly RayNode[]): void {
  if (nodes.length <= 1 || job.ray?.shared) return;
  for (const [field, place] of localPlaces(job)) {
    const detail = `${place} is a local path, and the cluster has ${nodes.length} nodes`;
    throw new SluiceError("DIRECTORY_NOT_SHARED", detail, {
      field,
      hint: "use s3://bucket/out, or, if all nodes mount this folder here, set ray.shared: true",
    });
  }
}

/** As many cores as a node has; of nodes that differ, of which workers use nearly the most. */
function coresOfWorker(nodes: readonly RayNode[]): number {
  const sizes = nodes.map((node) => Math.floor(amount(node, "CPU"))).filter((cores) => cores > 0);
  const used = (cores: number) => sizes.reduce((sum, size) => sum + size - (size % cores), 0);
  const most = Math.max(...sizes.map(used));
  return Math.max(1, ...sizes.filter((cores) => used(cores) >= nearlyMost * most));
}

/** Ray takes whole numbers, or shares of one. */
const whole = (count: number) => (count > 1 ? Math.ceil(count) : count);

const amount = ({ resources }: RayNode, name: string) => resources[name] ?? 0;

/** Ray's name of a kind of GPU, such as `L40S` for `l40s`. */
function acceleratorOf(kind: string | undefined, nodes: readonly RayNode[]): string | undefined {
  if (kind === undefined) return undefined;
  const plain = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, "");
  const names = nodes.flatMap(({ resources }) =>
    Object.keys(resources)
      .filter((name) => name.startsWith(acceleratorPrefix))
      .map((name) => name.slice(acceleratorPrefix.length)),
  );
  const same = names.find((name) => plain(name) === plain(kind));
  return same ?? names.find((name) => plain(name).includes(plain(kind)));
}
