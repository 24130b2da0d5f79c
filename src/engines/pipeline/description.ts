import { limits } from "../../foundation/limits.ts";
import type { EngineContext } from "../engine.ts";
import type { EngineDescription, MakeAbsolute } from "../engine-description.ts";
import type { ModelOptions } from "../model-options.ts";
import type { PackageContext } from "../packages/packages.ts";
import { fullSupport } from "../parameter-support.ts";
import { moduleDigest } from "./load-code.ts";
import type { PipelineModelOptions, StageOptions } from "./options.ts";
import { givesAnyRows, leastCommonMultiple, rowsTogether, wholeBatchRows } from "./stage-facts.ts";
import { stageReplicas } from "./stage-replicas.ts";

type PipelineOptions = Extract<ModelOptions, { engine: "pipeline" }>;
type Describe = (model: ModelOptions) => EngineDescription<ModelOptions>;

/** A task beyond the limit fits only the batches that decide results, or the largest ones. */
const maxTaskRowsMultiple = 10_000;

/**
 * The description of engine `pipeline`: the needs of its stages and their models.
 *
 * @param describe the description of the engine of a stage's model.
 */
export function pipelineDescription(describe: Describe): EngineDescription<PipelineOptions> {
  const innerOf = (options: PipelineOptions) =>
    modelsOf(options).map((model) => ({ model, known: describe(model) }));
  return {
    open: async (options, context) =>
      (await import("./engine.ts")).openPipeline(options as PipelineModelOptions, context),
    support: () => fullSupport,
    keepsPrefixes: false,
    readsIndex: true,
    takesRows: true,
    givesRows: true,
    usesAllCores: true,
    taskRowsMultiple,
    rowsTogether: (options) => rowsTogether(options as PipelineModelOptions),
    notices: (options) => [...stageReplicas(options).notices, ...closureNotices(options)],
    readyTimeoutMs: ({ stages }) =>
      limits.workerReadyTimeoutMs +
      Math.max(0, ...stages.map(({ loadTimeoutMs }) => loadTimeoutMs)),
    executes: (options) => [
      ...options.stages.flatMap(({ module }) => module ?? []),
      ...innerOf(options).flatMap(({ model, known }) => known.executes?.(model) ?? []),
    ],
    sendsKeys: (options) =>
      innerOf(options).flatMap(({ model, known }) => known.sendsKeys?.(model) ?? []),
    servers: (options) =>
      innerOf(options).flatMap(({ model, known }) => known.servers?.(model) ?? []),
    looksAt: (options) =>
      innerOf(options).flatMap(({ model, known }) => known.looksAt?.(model) ?? []),
    devices: (options) => devicesOf(options, describe),
    withAbsolutePaths: (options, absolute) => withPaths(options, absolute, describe),
    identified: (options) => mapStages(options, (stage) => identifiedStage(stage, describe)),
    sharedAmong(options, workers, cores, freeMemoryBytes) {
      const stages = options.stages.map((stage) =>
        withModel(stage, (model) => describe(model).sharedAmong?.(model, workers, cores) ?? model),
      );
      const { cpus = cores, memoryBytes = freeMemoryBytes, gpus } = options.resources;
      return { ...options, stages, resources: { cpus, gpus, memoryBytes } };
    },
    assertEnvironment(options, environment: EngineContext["environment"]) {
      for (const { model, known } of innerOf(options))
        known.assertEnvironment?.(model, environment);
    },
    async prepare(options, context: PackageContext, prepare) {
      for (const { model, known } of innerOf(options))
        await known.prepare?.(model, context, prepare);
    },
    async check(options, context: PackageContext) {
      for (const { model, known } of innerOf(options)) await known.check?.(model, context);
    },
  };
}

function modelsOf({ stages }: PipelineOptions): ModelOptions[] {
  return stages.flatMap(({ model }) => (model === undefined ? [] : [model as ModelOptions]));
}

function taskRowsMultiple({ stages }: PipelineOptions): number {
  const together = rowsTogether({ stages });
  const exact = stages.flatMap((stage) => (givesAnyRows(stage) ? [] : (stage.batchSize ?? [])));
  const common = leastCommonMultiple([together, ...exact]);
  if (common <= maxTaskRowsMultiple) return common;
  return together > 1 ? together : Math.max(...exact);
}

function closureNotices({ stages }: PipelineOptions): string[] {
  const numbers = stages.flatMap(({ closure }, at) => (closure === undefined ? [] : at + 1));
  if (numbers.length === 0) return [];
  const which =
    numbers.length === 1
      ? `stage ${numbers[0]} is a function`
      : `stages ${numbers.join(", ")} are functions`;
  return [
    `${which} of this program: they run in this process, and no other machine can have this run ` +
      "(a module in their place can be handed to any)",
  ];
}

function devicesOf({ stages }: PipelineOptions, describe: Describe) {
  const gpus = stages.reduce(
    (sum, { numGpus = 0, concurrency = 1 }) => sum + numGpus * concurrency,
    0,
  );
  if (gpus > 0) return { perWorker: Math.ceil(gpus) };
  const models = stages.flatMap(({ model }) =>
    model === undefined ? [] : [model as ModelOptions],
  );
  return models
    .map((model) => describe(model).devices?.(model))
    .find((found) => found !== undefined);
}

function withPaths(
  options: PipelineOptions,
  absolute: MakeAbsolute,
  describe: Describe,
): PipelineOptions {
  const stages = options.stages.map((stage) => {
    const { module } = stage;
    const placed = withModel(
      stage,
      (model) => describe(model).withAbsolutePaths?.(model, absolute) ?? model,
    );
    return module === undefined
      ? placed
      : { ...placed, module: absolute(module, "model", "stages") };
  });
  return { ...options, stages };
}

async function identifiedStage(stage: StageOptions, describe: Describe): Promise<StageOptions> {
  const { module, moduleSha256, model } = stage;
  const inner = model as ModelOptions | undefined;
  const identified = inner && (await describe(inner).identified?.(inner));
  return {
    ...stage,
    ...(module !== undefined && { moduleSha256: await moduleDigest(module, moduleSha256) }),
    ...(identified && { model: identified }),
    ...(givesAnyRows(stage) && { batchRows: wholeBatchRows(stage) }),
  };
}

async function mapStages(
  options: PipelineOptions,
  change: (stage: StageOptions) => Promise<StageOptions>,
): Promise<PipelineOptions> {
  const stages = await Promise.all(options.stages.map(change));
  return { ...options, stages } as PipelineOptions;
}

function withModel<Stage extends { model?: unknown }>(
  stage: Stage,
  change: (model: ModelOptions) => ModelOptions,
): Stage {
  if (stage.model === undefined) return stage;
  return { ...stage, model: change(stage.model as ModelOptions) };
}
