import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import {
  addUsage,
  type FinishReason,
  type InferenceRequest,
  type InferenceResponse,
  noOrigin,
  noUsage,
  type Usage,
} from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import { fromWire, toWire } from "../../foundation/typed-json.ts";
import type { Engine, EngineContext, StageState } from "../engine.ts";
import { openStages } from "./open-stages.ts";
import type { PipelineModelOptions } from "./options.ts";
import { rowChars } from "./row-chars.ts";
import type { RowCall, Stage } from "./stage.ts";
import { rowsTogether } from "./stage-facts.ts";

/** Most characters of rows in a pipeline at once, over all its stages. */
const maxPipelineChars = 64 * 1024 * 1024;

/**
 * Opens a pipeline: stages that a row passes through, with one row, several or none as the result.
 *
 * @throws SluiceError `STAGE_UNUSABLE` if the code of a stage cannot be used; the reason of a
 *   `generate` stage's engine that cannot be opened.
 */
export async function openPipeline(
  options: PipelineModelOptions,
  context: EngineContext,
): Promise<Engine> {
  return new PipelineEngine(await openStages(options, context), options, context);
}

/** The weight of the latest row in the mean size of rows. */
const latestShare = 0.05;

class PipelineEngine implements Engine {
  readonly name = "pipeline";
  readonly #stages: readonly Stage[];
  readonly #clock: EngineContext["clock"];
  /** Rows in each stage. */
  readonly #inside: number[];
  /** No more requests come before an answer. */
  #isDraining = false;
  #meanChars = 0;
  /** Number of the first stage whose results belong to no single row; else past the last. */
  readonly #border: number;
  readonly #rowsTogether: number;
  /** Requests of several rows. */
  #asked = 0;

  readonly #readsTyped: boolean;
  readonly #writesTyped: boolean;

  constructor(
    stages: readonly Stage[],
    options: PipelineModelOptions,
    { clock }: Pick<EngineContext, "clock">,
  ) {
    this.#stages = stages;
    this.#readsTyped = options.typedInput === true;
    this.#writesTyped = options.typedOutput === true;
    const border = stages.findIndex((stage) => stage.takeAll !== undefined);
    this.#border = border < 0 ? stages.length : border;
    this.#rowsTogether = rowsTogether(options);
    this.#inside = stages.map(() => 0);
    this.#clock = clock;
  }

  /** Enough rows to keep all stages busy at once, but no more than memory allows. */
  get capacity(): number {
    const all = sumOf(this.#stages, ({ capacity }) => capacity);
    const fitting = Math.floor(maxPipelineChars / Math.max(1, this.#meanChars));
    // Batches that wait to be full must not hold all possible rows.
    const least = 1 + sumOf(this.#stages, ({ heldRows }) => heldRows);
    const rows = Math.max(least, Math.min(all, fitting));
    if (this.#rowsTogether === 1) return rows;
    // One batch computes while the next ones are prepared.
    return Math.max(
      1 + sumOf(this.#stages, ({ state }) => state.replicas),
      Math.ceil(rows / this.#rowsTogether),
    );
  }

  get choices(): Readonly<Record<string, Json>> {
    return { stages: this.stages.map(({ stage, replicas }) => ({ stage, replicas })) };
  }

  get stages(): readonly StageState[] {
    return this.#stages.map(({ state }) => state);
  }

  async infer(request: InferenceRequest, signal: AbortSignal): Promise<InferenceResponse> {
    const { index } = request.origin ?? noOrigin;
    if (request.row === undefined) throw new SluiceError("PROTOCOL", "a pipeline takes rows");
    const given = request.rows ?? [request.row];
    const rows = this.#readsTyped ? (given.map(fromWire) as JsonObject[]) : given;
    const [row] = rows as readonly [JsonObject];
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
    const isAlone = this.#border === this.#stages.length;
    const passing = isAlone
      ? this.#pass(row, 0, call).then((rows) => ({ rows }))
      : this.#passTogether(rows, call);
    const outcome = await passing.catch((thrown: unknown) => {
      const error = asSluiceError(thrown);
      if (usage !== noUsage) error.paid = usage;
      throw error;
    });
    const seconds = (this.#clock.monotonic() - startedMs) / 1000;
    const answer = { text: "", finishReason, tokens: usage.completionTokens };
    const results = this.#writesTyped
      ? { rows: outcome.rows?.map((each) => toWire(each) as JsonObject) ?? [] }
      : {};
    return { answers: [answer], ...outcome, ...results, usage, seconds };
  }

  flush(): void {
    this.#isDraining = true;
    this.#flushFirst();
  }

  async close(): Promise<void> {
    await Promise.all(this.#stages.map((stage) => stage.close()));
  }

  /**
   * The results of rows with a common request. Each row passes alone up to the first stage of whole
   * batches, and may fail alone; from there on all of them have one outcome.
   */
  async #passTogether(
    rows: readonly JsonObject[],
    call: RowCall,
  ): Promise<Pick<InferenceResponse, "rows" | "failures">> {
    this.#asked++;
    try {
      const passing = Promise.allSettled(rows.map((row) => this.#pass(row, 0, call)));
      // No more rows come before one of these is answered: batches cannot wait to be full.
      if (this.#asked >= this.capacity) this.flush();
      const failures = new Map<number, Error>();
      let batch: readonly JsonObject[] = (await passing).flatMap((each, at) => {
        if (each.status === "fulfilled") return each.value;
        const error = asSluiceError(each.reason);
        if (error.scope !== "row" || call.signal.aborted) throw each.reason;
        failures.set(at, error);
        return [];
      });
      for (let at = this.#border; at < this.#stages.length && batch.length > 0; at++) {
        batch = await this.#throughStage(batch, at, call);
      }
      return { rows: batch, ...(failures.size > 0 && { failures }) };
    } finally {
      this.#asked--;
    }
  }

  async #throughStage(
    rows: readonly JsonObject[],
    at: number,
    call: RowCall,
  ): Promise<readonly JsonObject[]> {
    const stage = this.#stages[at]!;
    this.#inside[at]! += rows.length;
    try {
      if (stage.takeAll) return await stage.takeAll(rows, call);
      const taken = rows.map((row) => stage.take(row, call));
      this.#flushFirst();
      return (await Promise.all(taken)).flat();
    } finally {
      this.#inside[at]! -= rows.length;
      this.#flushFirst();
    }
  }

  /**
   * A row's result from stage `at` on, up to the first stage of whole batches. Before its first
   * wait, the row has entered that stage.
   */
  async #pass(row: JsonObject, at: number, call: RowCall): Promise<readonly JsonObject[]> {
    if (at === this.#border) return [row];
    const stage = this.#stages[at]!;
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

  /** Only the first stage with rows surely gets no more. */
  #flushFirst(): void {
    if (!this.#isDraining) return;
    this.#stages[this.#inside.findIndex((rows) => rows > 0)]?.flush();
  }
}

function sumOf(stages: readonly Stage[], of: (stage: Stage) => number): number {
  return stages.reduce((sum, stage) => sum + of(stage), 0);
}
