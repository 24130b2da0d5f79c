import type { InputStores } from "../../data/sources/open.ts";
import type { Engine, EngineContext, RowModel } from "../../engines/engine.ts";
import type { openEngine } from "../../engines/registry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse } from "../../foundation/inference.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { requestJson } from "../../foundation/typed-json.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { RowRequest } from "../../prompt/row-request.ts";
import { problemsError } from "../job/problem.ts";
import { type JobSpec, jobSchema } from "../job/schema.ts";
import { FitWatch } from "../plan/fit-watch.ts";
import { RowFiles } from "../plan/job-files.ts";
import { assertAskable, parametersOf, promptSetOf } from "../plan/job-prompts.ts";
import { areRepeatable } from "../reuse/request-key.ts";
import { withReuse } from "../reuse/reusing-engine.ts";
import { fetchingFiles } from "./fetching-engine.ts";
import type { RequestTraces } from "./request-traces.ts";
import { sendUntilAccepted } from "./tries.ts";

type Call = Parameters<RowModel["ask"]>[2];

/**
 * Opens the models of a pipeline's stages: `EngineContext.openRowModel` of its run.
 *
 * @param inputs for remote files that prompts name.
 * @param traces the spans of requests, where the run is traced.
 */
export function rowModelOpener(
  job: JobSpec,
  seed: number,
  open: typeof openEngine,
  inputs: Pick<InputStores, "within">,
  traces?: RequestTraces,
): NonNullable<EngineContext["openRowModel"]> {
  return async (stage, context) => {
    const own = stageJob(job, stage);
    const promptSet = promptSetOf(own, own.generation.seed ?? seed);
    const engine = fetchingFiles(await open(own.model, context), inputs, own);
    const asked = withReuse(engine, promptSet, own, context);
    return new AskedModel(asked, promptSet, own, context, traces);
  };
}

/**
 * Refuses stages with unusable prompts or parameters.
 *
 * @throws SluiceError `JOB_INVALID`, `TEMPLATE_INVALID`, `UNSUPPORTED`.
 */
export function assertStagesAskable(job: JobSpec): void {
  if (job.model.engine !== "pipeline") return;
  const { prompt, prompts, dataset, output } = job;
  if ([prompt, prompts, dataset].some((each) => each !== undefined)) {
    refuse("prompt", "a pipeline has no prompts of its own: give them to stages of kind generate");
  }
  if (output.include.length > 0) refuse("output.include", "rows of a pipeline have no such facts");
  for (const stage of job.model.stages) {
    if (stage.kind === "generate") assertAskable(stageJob(job, stage as unknown as JsonObject));
  }
}

/** The prompts of a first stage with a model: its rows are the input rows. */
export function firstStagePrompts(job: JobSpec): PromptSet | undefined {
  if (job.model.engine !== "pipeline") return undefined;
  const [first] = job.model.stages;
  if (first?.kind !== "generate") return undefined;
  return promptSetOf(stageJob(job, first as unknown as JsonObject), 0);
}

/** Whether the models of all stages give the same answer to the same request. */
export function areStagesRepeatable(job: JobSpec): boolean {
  if (job.model.engine !== "pipeline") return true;
  return job.model.stages.every(
    (stage) =>
      stage.kind !== "generate" ||
      areRepeatable(parametersOf(stageJob(job, stage as unknown as JsonObject), 0)),
  );
}

function refuse(field: string, problem: string): never {
  throw new SluiceError("JOB_INVALID", problem, { field });
}

/** A `generate` stage as a separate job, checked like any other. */
function stageJob(job: JobSpec, stage: JsonObject): JobSpec {
  const { model, prompt, prompts, schema, field } = stage;
  const { seed } = job.generation;
  const generation = { ...(seed !== undefined && { seed }), ...(stage.generation as JsonObject) };
  const value = {
    ...{ input: job.input, model, prompt, prompts, schema, generation },
    output: { path: job.output.path, field },
    ...{ retries: job.retries, reuse: job.reuse, allow: job.allow },
  };
  const parsed = jobSchema.safeParse(JSON.parse(JSON.stringify(value)));
  if (parsed.success) return parsed.data;
  throw problemsError(
    parsed.error.issues.map(({ path, message }) => ({
      code: "JOB_INVALID" as const,
      path: ["model", "stages", ...path.map(String)],
      message,
      origin: { from: "default" as const },
    })),
  );
}

class AskedModel implements RowModel {
  readonly #engine: Engine;
  readonly #promptSet: PromptSet;
  readonly #job: JobSpec;
  readonly #rowFiles: RowFiles;
  readonly #context: Pick<EngineContext, "clock" | "random">;
  readonly #traces: RequestTraces | undefined;
  /** Only here can rows of earlier stages be checked for the fields of the prompts. */
  readonly #fit = new FitWatch();

  constructor(
    engine: Engine,
    promptSet: PromptSet,
    job: JobSpec,
    context: Pick<EngineContext, "clock" | "random">,
    traces: RequestTraces | undefined,
  ) {
    this.#engine = engine;
    this.#promptSet = promptSet;
    this.#job = job;
    this.#rowFiles = new RowFiles(job);
    this.#context = context;
    this.#traces = traces;
  }

  get capacity(): number {
    return this.#engine.capacity;
  }

  async ask(row: JsonObject, index: number, call: Call): Promise<JsonObject> {
    const requests = this.#requests(requestJson(row) as JsonObject, index);
    const responses: InferenceResponse[] = [];
    for (let at = 0; at < requests.length; at++) {
      const request = this.#promptSet.ready(requests, responses, at);
      responses.push(await this.#answerTo(request, call));
    }
    const ends = responses.flatMap(({ answers }) => answers.map((each) => each.finishReason));
    if (ends.includes("length")) call.noteCut?.();
    return { ...row, [this.#job.output.field]: this.#promptSet.answer(requests, responses) };
  }

  flush(): void {
    this.#engine.flush?.();
  }

  close(): Promise<void> {
    return this.#engine.close();
  }

  #requests(row: JsonObject, index: number): RowRequest[] {
    try {
      const requests = () => this.#promptSet.requests(row, index);
      return this.#rowFiles.whole(this.#fit.rendered(requests, { value: row }));
    } catch (error) {
      if (this.#fit.isUnfit) this.#fit.assertFit();
      throw error;
    }
  }

  #answerTo(request: InferenceRequest, { signal, addUsage }: Call): Promise<InferenceResponse> {
    const { clock, random } = this.#context;
    const { maxAttempts } = this.#job.retries;
    const ask = (next: InferenceRequest) => {
      if (this.#traces) next.trace = this.#traces.next();
      return this.#engine.infer(next, signal);
    };
    return sendUntilAccepted(ask, request, {
      ...{ promptSet: this.#promptSet, maxTries: maxAttempts, clock, random, signal, addUsage },
    });
  }
}
