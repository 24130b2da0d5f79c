import type { Engine } from "../../engines/engine.ts";
import { WrappedEngine } from "../../engines/wrapped-engine.ts";
import { asSluiceError, type SluiceError, withTexts } from "../../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse, OnDelta } from "../../foundation/inference.ts";

type Redact = (text: string) => string;

/**
 * The same engine with secrets removed from its errors: messages of the user's programs and modules
 * go into dead letters and logs.
 */
export function redacting(engine: Engine, redact: Redact): Engine {
  return new RedactingEngine(engine, redact);
}

class RedactingEngine extends WrappedEngine {
  readonly #redact: Redact;

  constructor(inner: Engine, redact: Redact) {
    super(inner);
    this.#redact = redact;
  }

  infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    return this.inner.infer(request, signal, onDelta).then(this.#checked, (thrown: unknown) => {
      if (signal.aborted) throw thrown;
      throw withoutSecrets(asSluiceError(thrown), this.#redact);
    });
  }

  // One function for all requests: only a batch with faulty rows has failures.
  readonly #checked = (response: InferenceResponse): InferenceResponse => {
    for (const error of response.failures?.values() ?? []) withoutSecrets(error, this.#redact);
    return response;
  };
}

/** The same error without secrets in its texts. */
export function withoutSecrets<Failure extends Error & Pick<SluiceError, "server">>(
  error: Failure,
  redact: Redact,
): Failure {
  const clean = redact(error.message);
  if (clean !== error.message) error.message = clean;
  if (error.server) error.server = withTexts(error.server, redact);
  return error;
}
