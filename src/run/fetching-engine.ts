import type { InputStores } from "../data/sources/open.ts";
import { schemeOf } from "../data/storage/open.ts";
import type { Engine, StageState } from "../engines/engine.ts";
import { type ErrorCode, errorTable } from "../foundation/error-table.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse } from "../foundation/inference.ts";
import type { Json } from "../foundation/json.ts";

type Copies = Pick<InputStores, "copy">;

/**
 * The same engine, which may also be asked about files at addresses: each is copied to this machine
 * for as long as it is asked about, since engines open files of this machine alone.
 */
export function fetchingFiles(engine: Engine, inputs: Copies): Engine {
  return new FetchingEngine(engine, inputs);
}

class FetchingEngine implements Engine {
  readonly tokenize: Engine["tokenize"];
  readonly #engine: Engine;
  readonly #inputs: Copies;

  constructor(engine: Engine, inputs: Copies) {
    this.#engine = engine;
    this.#inputs = inputs;
    this.tokenize = engine.tokenize?.bind(engine);
  }

  get name(): string {
    return this.#engine.name;
  }

  get capacity(): number {
    return this.#engine.capacity;
  }

  get choices(): Readonly<Record<string, Json>> {
    return this.#engine.choices ?? {};
  }

  get stages(): readonly StageState[] | undefined {
    return this.#engine.stages;
  }

  flush(): void {
    this.#engine.flush?.();
  }

  infer(request: InferenceRequest, signal: AbortSignal): Promise<InferenceResponse> {
    const { file } = request;
    const isFar = file !== undefined && schemeOf(file) !== undefined;
    return isFar ? this.#fetched(file, request, signal) : this.#engine.infer(request, signal);
  }

  close(): Promise<void> {
    return this.#engine.close();
  }

  async #fetched(
    file: string,
    request: InferenceRequest,
    signal: AbortSignal,
  ): Promise<InferenceResponse> {
    const copy = await this.#inputs.copy(file, signal).catch((error) => {
      throw rowError(error, file);
    });
    try {
      return await this.#engine.infer({ ...request, file: copy.path }, signal);
    } finally {
      await copy.remove();
    }
  }
}

/** What is the matter with one file ends its row; a place that nobody reaches ends the run. */
const codesOfFiles: readonly ErrorCode[] = ["NOT_FOUND", "INPUT_UNREADABLE", "UNSUPPORTED"];

function rowError(error: unknown, file: string): unknown {
  if (!(error instanceof SluiceError) || !codesOfFiles.includes(error.code)) return error;
  const said = error.code === "NOT_FOUND" ? "nothing is there" : error.message;
  const own = error.hint === errorTable[error.code].hint ? {} : { hint: error.hint };
  return new SluiceError("FILE_UNREADABLE", said, { file, cause: error, ...own });
}
