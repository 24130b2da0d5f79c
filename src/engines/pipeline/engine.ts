import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import {
  addUsage,
  type FinishReason,
  type InferenceRequest,
  type InferenceResponse,
  noUsage,
  type Usage,
} from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { Engine, EngineContext, StageState } from "../engine.ts";
import { openStages } from "./open-stages.ts";
import type { PipelineModelOptions } from "./options.ts";
import { rowChars } from "./row-chars.ts";
import type { RowCall, Stage } from "./stage.ts";

/**
 * Opens a pipeline: stages that a row passes through, by which it becomes one row, several or none.
 *
 * @throws SluiceError `STAGE_UNUSABLE` where the code of a stage cannot be used; what the engine of
 *   a `generate` stage says when it cannot be opened.
 */
export async function openPipeline(
  options: PipelineModelOptions,
  context: EngineContext,
): Promise<Engine> {
  return new PipelineEngine(await openStages(options, context), context);
}

/** How much the latest row counts in the mean size of rows. */
const latestShare = 0.05;

class PipelineEngine implements Engine {
  readonly name = "pipeline";
  readonly #stages: readonly Stage[];
  readonly #clock: EngineContext["clock"];
  /** Rows in each stage. */
  readonly #inside: number[];
  /** Nothing more is asked until something is answered. */
  #isDraining = false;
  #meanChars = 0;

  constructor(stages: readonly Stage[], { clock }: EngineContext) {
    this.#stages = stages;
    this.#inside = stages.map(() => 0);
    this.#clock = clock;
  }

  /** Enough rows to keep all stages at work at once, but no more than memory is good for. */
  get capacity(): number {
    const all = sumOf(this.#stages, ({ capacity }) => capacity);
    const fitting = Math.floor(limits.maxPipelineChars / Math.max(1, this.#meanChars));
    // Batches that wait to be full must not hold all that may come.
    const least = 1 + sumOf(this.#stages, ({ heldRows }) => heldRows);
    return Math.max(least, Math.min(all, fitting));
  }

  get choices(): Readonly<Record<string, Json>> {
    return { stages: this.stages.map(({ stage, replicas }) => ({ stage, replicas })) };
  }

  get stages(): readonly StageState[] {
    return this.#stages.map(({ state }) => state);
  }

  async infer(request: InferenceRequest, signal: AbortSignal): Promise<InferenceResponse> {
    const { row, index } = request;
    if (row === undefined) throw new SluiceError("PROTOCOL", "a pipeline takes rows");
    signal.throwIfAborted();
    this.#isDraining = false;
    this.#meanChars += latestShare * (rowChars(row) - this.#meanChars);
    const startedMs = this.#clock.monotonic();
    let usage: Usage = noUsage;
    let finishReason: FinishReason = "stop";
    const call: RowCall = {
      index,
      signal,
      addUsage: (more) => {
        usage = addUsage(usage, more);
      },
      noteCut: () => {
        finishReason = "length";
      },
    };
    const rows = await this.#pass(row, 0, call).catch((thrown: unknown) => {
      const error = asSluiceError(thrown);
      if (usage !== noUsage) error.paid = usage;
      throw error;
    });
    const seconds = (this.#clock.monotonic() - startedMs) / 1000;
    const answer = { text: "", finishReason, tokens: usage.completionTokens };
    return { answers: [answer], rows, usage, seconds };
  }

  flush(): void {
    this.#isDraining = true;
    this.#flushFirst();
  }

  async close(): Promise<void> {
    await Promise.all(this.#stages.map((stage) => stage.close()));
  }

  /** What a row becomes from stage `at` on. Up to its first wait it has entered that stage. */
  async #pass(row: JsonObject, at: number, call: RowCall): Promise<readonly JsonObject[]> {
    const stage = this.#stages[at];
    if (stage === undefined) return [row];
    this.#inside[at]!++;
    let going: Promise<readonly JsonObject[]>[];
    try {
      const rows = await stage.take(row, call);
      // They are in the next stage before they leave this one.
      going = rows.map((each) => this.#pass(each, at + 1, call));
    } finally {
      this.#inside[at]!--;
      this.#flushFirst();
    }
    return going.length === 1 ? going[0]! : (await Promise.all(going)).flat();
  }

  /** Only the first stage that has rows is sure to get no more. */
  #flushFirst(): void {
    if (!this.#isDraining) return;
    this.#stages[this.#inside.findIndex((rows) => rows > 0)]?.flush();
  }
}

function sumOf(stages: readonly Stage[], of: (stage: Stage) => number): number {
  return stages.reduce((sum, stage) => sum + of(stage), 0);
}
