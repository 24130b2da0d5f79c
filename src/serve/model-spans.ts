import {
  firstPieceAttributes,
  requestAttributes,
  requestSpanName,
  responseAttributes,
} from "../engines/gen-ai-attributes.ts";
import type { InferenceRequest, Usage } from "../foundation/inference.ts";
import {
  isSampled,
  type Span,
  type Telemetry,
  type TraceContext,
} from "../foundation/telemetry.ts";

/** The spans of one request to a model: its wait, and then its time with the engine. */
export class ModelSpans {
  readonly #telemetry: Telemetry;
  readonly #parent: TraceContext;
  /** The one that has not ended. */
  #span: Span;

  /**
   * Begins with the wait for the request's turn. A request of a trace that is not recorded has no
   * spans, but carries the trace on.
   */
  static begin(
    telemetry: Telemetry | undefined,
    parent: TraceContext,
    request: InferenceRequest,
  ): ModelSpans | undefined {
    request.trace = parent;
    return telemetry && isSampled(parent) ? new ModelSpans(telemetry, parent) : undefined;
  }

  private constructor(telemetry: Telemetry, parent: TraceContext) {
    this.#telemetry = telemetry;
    this.#parent = parent;
    this.#span = telemetry.start("queue", { parent });
  }

  /** Its turn has come: what the engine traces of the request stands below this. */
  admitted(model: string, engine: string, request: InferenceRequest): void {
    this.#span.end();
    this.#span = this.#telemetry.start(requestSpanName(model, request), {
      parent: this.#parent,
      attributes: requestAttributes(engine, model, request),
    });
    request.trace = this.#span.context;
  }

  answered({ usage, firstPieceMs }: { usage: Usage; firstPieceMs: number | undefined }): void {
    this.#span.set(responseAttributes({ usage }));
    if (firstPieceMs !== undefined) this.#span.set(firstPieceAttributes(firstPieceMs / 1000));
    this.#span.end();
  }

  failed(code: string): void {
    this.#span.fail(code);
    this.#span.end();
  }
}
