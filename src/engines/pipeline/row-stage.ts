import type { JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { EngineContext, StageState } from "../engine.ts";
import { through } from "./hosted-stages.ts";
import { type RowCall, type Stage, StageCounts } from "./stage.ts";
import type { RowFunction } from "./stage-code.ts";

/** Neighbouring stages of rows that run in this process, one row after the other. */
export class RowStage implements Stage {
  readonly heldRows = 0;
  readonly capacity = limits.defaultStageRows;
  readonly #label: string;
  readonly #functions: readonly RowFunction[];
  readonly #clock: EngineContext["clock"];
  readonly #counts = new StageCounts();

  constructor(label: string, functions: readonly RowFunction[], { clock }: EngineContext) {
    this.#label = label;
    this.#functions = functions;
    this.#clock = clock;
  }

  get state(): StageState {
    return this.#counts.state(this.#label, 0, 1);
  }

  take(row: JsonObject, _call: RowCall): Promise<readonly JsonObject[]> {
    return this.#counts.through(this.#timed(row));
  }

  flush(): void {}

  async close(): Promise<void> {}

  async #timed(row: JsonObject): Promise<readonly JsonObject[]> {
    const startedMs = this.#clock.monotonic();
    try {
      return await through(this.#functions, row);
    } finally {
      this.#counts.called((this.#clock.monotonic() - startedMs) / 1000);
    }
  }
}
