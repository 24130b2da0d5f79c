import { SluiceError } from "../../foundation/errors.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { visibilityOf, visibilityVariables } from "../devices.ts";
import type { EngineContext, RowModel, StageState } from "../engine.ts";
import { openHostedEngine } from "../host/client.ts";
import { allOpened } from "../replicas.ts";
import { BatchedStage, hostedReplica, type StageReplica } from "./batched-stage.ts";
import { FunctionReplica, RowWaits } from "./function-calls.ts";
import { type HostedStagesOptions, through } from "./hosted-stages.ts";
import type { PipelineModelOptions, StageOptions } from "./options.ts";
import { type RowCall, type Stage, StageCounts } from "./stage.ts";
import {
  batchFunction,
  type LabelledStage,
  type RowFunction,
  rowFunction,
  type Until,
} from "./stage-code.ts";
import { givesAnyRows, stageLabel, wholeBatchRows } from "./stage-facts.ts";
import { stageReplicas } from "./stage-replicas.ts";
import { WholeBatchStage } from "./whole-batch-stage.ts";

/** Stages that run together, and their number of replicas. */
interface StageGroup {
  stages: LabelledStage[];
  replicas: number;
}

/**
 * Opens the stages of a pipeline. Neighbouring stages of rows become one, in a separate process if
 * one of them has a module; a stage of batches has its replicas.
 *
 * @throws SluiceError the reason of the first stage that cannot be opened; none is left open then.
 */
export async function openStages(
  options: PipelineModelOptions,
  context: EngineContext,
): Promise<Stage[]> {
  const { replicas } = stageReplicas(options);
  return allOpened(groupsOf(options.stages, replicas).map((group) => openGroup(group, context)));
}

function groupsOf(stages: readonly StageOptions[], replicas: readonly number[]): StageGroup[] {
  const groups: StageGroup[] = [];
  for (const [at, stage] of stages.entries()) {
    const labelled = { stage, label: `stage ${stageLabel(stage, at)}` };
    const last = groups.at(-1)?.stages;
    const isJoined =
      last !== undefined && [...last, labelled].every(isOfRows) && arePlacedAlike(last, stage);
    if (isJoined) last.push(labelled);
    else groups.push({ stages: [labelled], replicas: replicas[at]! });
  }
  return groups;
}

function isOfRows({ stage }: LabelledStage): boolean {
  return stage.kind !== "mapBatches" && stage.kind !== "generate";
}

/** A function of this program and one in a module run in different processes. */
function arePlacedAlike(group: readonly LabelledStage[], next: StageOptions): boolean {
  const all = [...group.map(({ stage }) => stage), next];
  return !(all.some(({ closure }) => closure) && all.some(({ module }) => module));
}

async function openGroup(group: StageGroup, context: EngineContext): Promise<Stage> {
  const [{ stage }] = group.stages as [LabelledStage];
  const label = labelOf(group.stages);
  if (stage.kind === "generate") return openGenerate(group.stages[0]!, context);
  if (givesAnyRows(stage)) {
    const isHosted = stage.module !== undefined;
    const replicas = await (isHosted ? hostedReplicas : replicasHere)(group, context);
    return new WholeBatchStage(label, wholeBatchRows(stage), replicas, context);
  }
  if (group.stages.some(({ stage }) => stage.module !== undefined)) {
    return new BatchedStage(label, stage, await hostedReplicas(group, context), context);
  }
  if (stage.kind === "mapBatches") {
    return new BatchedStage(label, stage, await replicasHere(group, context), context);
  }
  const functions = group.stages.map((each) => rowFunction(each, closureOf(each, context)));
  return new RowStage(label, functions, context);
}

/** `1 map clean`; for several `1 map clean, 2 filter`. */
function labelOf(stages: readonly LabelledStage[]): string {
  return stages.map(({ label }) => label.replace(/^stage /, "")).join(", ");
}

async function openGenerate(
  { stage, label }: LabelledStage,
  context: EngineContext,
): Promise<Stage> {
  if (context.openRowModel === undefined) {
    throw new SluiceError("PROTOCOL", `${label}: this process cannot ask a model`);
  }
  const model = await context.openRowModel(stage as unknown as JsonObject, context);
  return new GenerateStage(labelOf([{ stage, label }]), model, context);
}

async function hostedReplicas(
  { stages, replicas }: StageGroup,
  context: EngineContext,
): Promise<StageReplica[]> {
  const [{ stage }] = stages as [LabelledStage];
  const hosted: HostedStagesOptions = { stages };
  const opening = Array.from({ length: replicas }, async (_, replica) => {
    const host = await openHostedEngine({
      kind: "stages",
      options: JSON.parse(JSON.stringify(hosted)) as Json,
      nativeCalls: limits.maxPredictorNativeCalls,
      loadTimeoutMs: Math.max(...stages.map((each) => each.stage.loadTimeoutMs)),
      context: { ...context, environment: environmentOf(stage, replica, context) },
    });
    return hostedReplica(labelOf(stages), host, stage.timeoutMs);
  });
  return allOpened(opening);
}

function environmentOf(
  { numGpus }: StageOptions,
  replica: number,
  { environment }: EngineContext,
): EngineContext["environment"] {
  const shown = environment[visibilityVariables[0]];
  if (numGpus === undefined || shown === undefined) return environment;
  const own = devicesOfReplica(shown.split(","), numGpus, replica);
  return { ...environment, ...visibilityOf(own) };
}

async function replicasHere(
  { stages, replicas }: StageGroup,
  context: EngineContext,
): Promise<StageReplica[]> {
  const [labelled] = stages as [LabelledStage];
  const code = closureOf(labelled, context);
  const opening = Array.from(
    { length: replicas },
    async () => new FunctionReplica(await batchFunction(labelled, code), labelled, context.clock),
  );
  return Promise.all(opening);
}

/** The function of this program in a stage; undefined if it needs none. */
function closureOf({ stage, label }: LabelledStage, { functions }: EngineContext): unknown {
  const { closure } = stage;
  if (closure === undefined) return undefined;
  const found = functions?.[closure.at];
  if (found !== undefined) return found;
  const detail = `${label} is a function of the program that began this run`;
  throw new SluiceError("STAGE_UNUSABLE", detail, {
    hint: "run that program again, or give the function in a module: then any worker can have it",
  });
}

/**
 * The GPUs of one replica of a stage: whole ones in turn, or shares of one that several replicas
 * use.
 *
 * @param devices those of the worker; if replicas need more, they begin with the first again.
 * @param each GPUs of a replica, such as 2 or 0.5.
 * @example
 * devicesOfReplica(["0", "1"], 0.5, 3); // ["1"]
 */
export function devicesOfReplica(
  devices: readonly string[],
  each: number,
  replica: number,
): string[] {
  // Ten times 0.1 is a little less than 1.
  const first = Math.floor(replica * each + 1e-9);
  const last = Math.max(first + 1, Math.ceil((replica + 1) * each - 1e-9));
  const chosen = Array.from(
    { length: last - first },
    (_, at) => devices[(first + at) % devices.length]!,
  );
  return [...new Set(chosen)];
}

/** Neighbouring stages of rows in this process, one row after the other. */
class RowStage implements Stage {
  readonly heldRows = 0;
  readonly capacity = limits.defaultStageRows;
  readonly #label: string;
  readonly #functions: readonly RowFunction[];
  readonly #clock: EngineContext["clock"];
  readonly #counts = new StageCounts();
  readonly #waits = new RowWaits();

  constructor(label: string, functions: readonly RowFunction[], { clock }: EngineContext) {
    this.#label = label;
    this.#functions = functions;
    this.#clock = clock;
  }

  get state(): StageState {
    return this.#counts.state(this.#label, 0, 1);
  }

  take(row: JsonObject, { signal }: RowCall): Promise<readonly JsonObject[]> {
    const until: Until = (promised) => this.#waits.until(promised, signal);
    const call = () => through(this.#functions, row, until);
    return this.#counts.through(this.#counts.timed(this.#clock, call));
  }

  flush(): void {}

  async close(): Promise<void> {
    this.#waits.close();
  }
}

/** A stage that sends each row to a model, as many at once as the model's engine holds. */
class GenerateStage implements Stage {
  readonly #label: string;
  readonly #model: RowModel;
  readonly #clock: EngineContext["clock"];
  readonly #counts = new StageCounts();
  readonly #waiting: (() => void)[] = [];
  #asked = 0;

  constructor(label: string, model: RowModel, { clock }: EngineContext) {
    this.#label = label;
    this.#model = model;
    this.#clock = clock;
  }

  get state(): StageState {
    return this.#counts.state(this.#label, this.#waiting.length, 1);
  }

  get capacity(): number {
    return 2 * this.#model.capacity;
  }

  get heldRows(): number {
    return 1;
  }

  take(row: JsonObject, call: RowCall): Promise<readonly JsonObject[]> {
    return this.#counts.through(this.#ask(row, call));
  }

  flush(): void {
    this.#model.flush();
  }

  close(): Promise<void> {
    return this.#model.close();
  }

  async #ask(row: JsonObject, { index, ...call }: RowCall): Promise<readonly JsonObject[]> {
    await this.#turn();
    try {
      return await this.#counts.timed(this.#clock, async () => {
        call.signal.throwIfAborted();
        return [await this.#model.ask(row, index, call)];
      });
    } finally {
      this.#asked--;
      this.#waiting.shift()?.();
    }
  }

  /** Resolves when the engine has room for one more row, which is then taken. */
  async #turn(): Promise<void> {
    // Those that wait longer go first.
    while (this.#asked >= this.#model.capacity) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#asked++;
  }
}
