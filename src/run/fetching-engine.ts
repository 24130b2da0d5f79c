import type { InputStores } from "../data/sources/open.ts";
import { schemeOf } from "../data/storage/open.ts";
import type { Engine } from "../engines/engine.ts";
import { type ErrorCode, errorTable } from "../foundation/error-table.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse } from "../foundation/inference.ts";
import { WrappedEngine } from "./wrapped-engine.ts";

type Copies = Pick<InputStores, "copy">;

/**
 * The same engine, which may also be asked about files at addresses: each is copied to this machine
 * for as long as it is asked about, since engines open files of this machine alone.
 */
export function fetchingFiles(engine: Engine, inputs: Copies): Engine {
  return new FetchingEngine(engine, inputs);
}

class FetchingEngine extends WrappedEngine {
  readonly #inputs: Copies;

  constructor(engine: Engine, inputs: Copies) {
    super(engine);
    this.#inputs = inputs;
  }

  infer(request: InferenceRequest, signal: AbortSignal): Promise<InferenceResponse> {
    const { file } = request;
    const isFar = file !== undefined && schemeOf(file) !== undefined;
    return isFar ? this.#fetched(file, request, signal) : this.inner.infer(request, signal);
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
      return await this.inner.infer({ ...request, file: copy.path }, signal);
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
