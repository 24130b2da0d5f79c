import type { JsonObject } from "../../foundation/json.ts";
import type { EngineContext, RowModel, StageState } from "../engine.ts";
import { type RowCall, type Stage, StageCounts } from "./stage.ts";

/** A stage that asks a model about each row, as many rows at once as the model's engine holds. */
export class GenerateStage implements Stage {
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
    const startedMs = this.#clock.monotonic();
    try {
      call.signal.throwIfAborted();
      return [await this.#model.ask(row, index, call)];
    } finally {
      this.#counts.called((this.#clock.monotonic() - startedMs) / 1000);
      this.#asked--;
      this.#waiting.shift()?.();
    }
  }

  /** Resolves when the engine has room for one more row, which is then this one's. */
  async #turn(): Promise<void> {
    // Those that wait longer go first.
    while (this.#asked >= this.#model.capacity) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#asked++;
  }
}
