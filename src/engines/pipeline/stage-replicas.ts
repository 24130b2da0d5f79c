import type { PipelineModelOptions, StageOptions } from "./options.ts";
import { stageLabel } from "./stage-facts.ts";

type Resources = PipelineModelOptions["resources"];
type Need = Pick<StageOptions, "numCpus" | "numGpus" | "memoryBytes" | "concurrency">;

/** Replicas of each stage, with the notices about them. */
export interface StageReplicas {
  /** By number of the stage, from 0; 1 if a stage has no replicas. */
  replicas: number[];
  notices: string[];
}

/**
 * Divides a worker's share among the replicas of its stages: one each in any case, then one more in
 * turn as long as cores, GPUs and memory suffice, up to `concurrency`.
 *
 * @example
 * const stages = [{ kind: "mapBatches", numCpus: 5, concurrency: 8, … }];
 * stageReplicas({ stages, resources: { cpus: 16 } }).replicas; // [3]
 */
export function stageReplicas({
  stages,
  resources,
}: Pick<PipelineModelOptions, "stages" | "resources">): StageReplicas {
  const replicas = stages.map(() => 1);
  for (let hasGrown = true; hasGrown; ) {
    hasGrown = false;
    for (const [at, stage] of stages.entries()) {
      if (replicas[at]! >= wantedReplicas(stage, resources)) continue;
      replicas[at]!++;
      if (fits(stages, replicas, resources)) hasGrown = true;
      else replicas[at]!--;
    }
  }
  const notices = stages.flatMap((stage, at) => {
    const given = replicas[at]!;
    if (stage.concurrency === undefined || given >= stage.concurrency) return [];
    const asked = `stage ${stageLabel(stage, at)}: concurrency ${stage.concurrency}`;
    const replicasText = given === 1 ? "1 replica" : `${given} replicas`;
    return [`${asked} runs with ${replicasText}: ${shortage(stage, resources)}`];
  });
  return { replicas, notices: [...notices, ...overdrawn(stages, resources)] };
}

/** Most replicas of a stage: without `concurrency`, as many as its needs allow. */
function wantedReplicas(
  { kind, concurrency, numCpus, numGpus }: StageOptions,
  { gpus }: Resources,
): number {
  if (kind !== "mapBatches") return 1;
  if (concurrency !== undefined) return concurrency;
  const isBounded = numCpus !== undefined || (numGpus !== undefined && gpus !== undefined);
  return isBounded ? Number.POSITIVE_INFINITY : 1;
}

/** Needs in the order of the resources, so that sums are taken the same way for each. */
const kinds = [
  { need: "numCpus", resource: "cpus", unit: "CPUs" },
  { need: "numGpus", resource: "gpus", unit: "GPUs" },
  { need: "memoryBytes", resource: "memoryBytes", unit: "bytes of memory" },
] as const;

function fits(stages: readonly Need[], replicas: readonly number[], resources: Resources): boolean {
  return kinds.every(({ need, resource }) => {
    const has = resources[resource] ?? (need === "numCpus" ? 1 : Number.POSITIVE_INFINITY);
    const taken = stages.reduce((sum, stage, at) => sum + (stage[need] ?? 0) * replicas[at]!, 0);
    // Ten times 0.1 is a little more than 1.
    return taken <= has * (1 + 1e-9);
  });
}

function shortage(stage: StageOptions, resources: Resources): string {
  return kinds
    .filter(({ need, resource }) => stage[need] !== undefined && resources[resource] !== undefined)
    .map(
      ({ need, resource, unit }) => `each takes ${stage[need]} of ${resources[resource]} ${unit}`,
    )
    .join(", ");
}

/** What one replica of each stage needs beyond the available share. */
function overdrawn(stages: readonly StageOptions[], resources: Resources): string[] {
  return kinds.flatMap(({ need, resource, unit }) => {
    const has = resources[resource];
    const taken = stages.reduce((sum, stage) => sum + (stage[need] ?? 0), 0);
    if (has === undefined || taken <= has) return [];
    const all = `one replica of each stage takes ${taken} ${unit}`;
    return [`${all}, and there are ${has}: they run all the same`];
  });
}
