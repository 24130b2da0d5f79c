import type { InputStores } from "../../data/sources/open.ts";
import { schemeOf } from "../../data/storage/open.ts";
import type { Engine } from "../../engines/engine.ts";
import { WrappedEngine } from "../../engines/wrapped-engine.ts";
import { type ErrorCode, errorTable } from "../../foundation/error-table.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse, OnDelta } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import type { JobSpec } from "../job/schema.ts";
import { reachOf } from "../plan/job-files.ts";

/** Most servers and buckets that are remembered as answering. */
const maxKnownPlaces = 1000;

type Copies = Pick<InputStores, "copy">;

/**
 * The same engine for remote files too. Engines open only local files, so each file is copied to
 * this machine while its request runs.
 *
 * @param job whose rows name them: it says how far these may lead.
 */
export function fetchingFiles(
  engine: Engine,
  inputs: Pick<InputStores, "within">,
  job: JobSpec,
): Engine {
  return new FetchingEngine(engine, inputs.within(reachOf(job)));
}

class FetchingEngine extends WrappedEngine {
  readonly #inputs: Copies;
  readonly #availabilities = new Map<string, Availability>();

  constructor(engine: Engine, inputs: Copies) {
    super(engine);
    this.#inputs = inputs;
  }

  infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    const { file } = request;
    const isFar = file !== undefined && schemeOf(file) !== undefined;
    if (isFar) return this.#fetched(file, request, signal, onDelta);
    return this.inner.infer(request, signal, onDelta);
  }

  #availabilityOf(file: string): Availability {
    const scheme = schemeOf(file)!;
    const kind = scheme === "http" ? "https" : scheme;
    const known = this.#availabilities.get(kind) ?? new Availability();
    this.#availabilities.set(kind, known);
    return known;
  }

  async #fetched(
    file: string,
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta: OnDelta | undefined,
  ): Promise<InferenceResponse> {
    const available = this.#availabilityOf(file);
    const copy = await this.#inputs.copy(file, signal).catch((error) => {
      throw available.failed(file, error);
    });
    available.answered(file);
    try {
      return await this.inner.infer({ ...request, file: copy.path }, signal, onDelta);
    } finally {
      await copy.remove();
    }
  }
}

/** Faults that all files of a place may share: no answer, or no access. */
const faultsOfPlaces: readonly ErrorCode[] = ["INPUT_UNREACHABLE", "STORE_FAILED", "ENV_MISSING"];

/**
 * Distinguishes a row with a dead address from a network or credentials that serve no row: only the
 * latter end the run. That is so after many different failed files in a row, if no place of their
 * kind has ever answered, or one did and no longer does.
 */
class Availability {
  /** Places that have answered: servers, buckets. */
  readonly #known = new Set<string>();
  /** Failed files since a place last answered. */
  readonly #failed = new Set<string>();
  #isKnownLost = false;

  answered(file: string): void {
    this.#failed.clear();
    this.#isKnownLost = false;
    const place = placeOf(file);
    this.#known.delete(place);
    this.#known.add(place);
    if (this.#known.size <= maxKnownPlaces) return;
    for (const oldest of this.#known) return void this.#known.delete(oldest);
  }

  /** The error that ends the row or the run. */
  failed(file: string, error: unknown): unknown {
    if (!(error instanceof SluiceError) || isOfThisMachine(error)) return error;
    if (error.code === "NOT_FOUND") this.answered(file);
    else if (faultsOfPlaces.includes(error.code)) {
      this.#isKnownLost ||= this.#known.has(placeOf(file));
      this.#failed.add(file);
      const isOfAll = this.#isKnownLost || this.#known.size === 0;
      if (isOfAll && this.#failed.size >= limits.maxUnreachedFiles) return error;
    }
    return error.scope === "run" ? rowError(error, file) : error;
  }
}

/** The server or bucket of a file. */
function placeOf(file: string): string {
  return /^[^:]+:\/\/[^/?#]*/.exec(file)?.[0] ?? file;
}

/** An error of the folder of copies would hit every row. */
function isOfThisMachine({ code, place: { file } }: SluiceError): boolean {
  const isOfStorage = ["NOT_FOUND", "STORE_FULL", "STORE_FAILED"].includes(code);
  return isOfStorage && file !== undefined && schemeOf(file) === undefined;
}

function rowError(error: SluiceError, file: string): SluiceError {
  const said = error.code === "NOT_FOUND" ? "nothing is there" : error.message;
  const own = error.hint === errorTable[error.code].hint ? {} : { hint: error.hint };
  return new SluiceError("FILE_UNREADABLE", said, { file, cause: error, ...own });
}
