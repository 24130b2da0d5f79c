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

/** Servers and buckets of which it is kept that they answered. */
const maxKnownPlaces = 1000;

type Copies = Pick<InputStores, "copy">;

/**
 * The same engine, which may also be asked about files at addresses: each is copied to this machine
 * for as long as it is asked about, since engines open files of this machine alone.
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

/** Faults that all files of a place may share: that it does not answer, or not to us. */
const faultsOfPlaces: readonly ErrorCode[] = ["INPUT_UNREACHABLE", "STORE_FAILED", "ENV_MISSING"];

/**
 * Tells a row with a dead address from a network, or credentials, by which no row is ever served:
 * only that is the run's cause. It is where so many different files in a row were not given that
 * no place of their kind has ever answered, or one of them did and does so no longer.
 */
class Availability {
  /** Places that have answered: servers, buckets. */
  readonly #known = new Set<string>();
  /** Files that failed since a place answered. */
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

  /** What ends the row, or the run. */
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

/** The server or the bucket that a file lies in. */
function placeOf(file: string): string {
  return /^[^:]+:\/\/[^/?#]*/.exec(file)?.[0] ?? file;
}

/** What the folder of copies lacks, every row lacks. */
function isOfThisMachine({ code, place: { file } }: SluiceError): boolean {
  const isOfStorage = ["NOT_FOUND", "STORE_FULL", "STORE_FAILED"].includes(code);
  return isOfStorage && file !== undefined && schemeOf(file) === undefined;
}

function rowError(error: SluiceError, file: string): SluiceError {
  const said = error.code === "NOT_FOUND" ? "nothing is there" : error.message;
  const own = error.hint === errorTable[error.code].hint ? {} : { hint: error.hint };
  return new SluiceError("FILE_UNREADABLE", said, { file, cause: error, ...own });
}
