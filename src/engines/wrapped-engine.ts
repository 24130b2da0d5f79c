import type { InferenceRequest, InferenceResponse, OnDelta } from "../foundation/inference.ts";
import type { Json } from "../foundation/json.ts";
import type { BatchState } from "./batch-records.ts";
import type { Engine, StageState } from "./engine.ts";

/** An engine that differs from another one only in how it answers a request. */
export abstract class WrappedEngine implements Engine {
  readonly tokenize: Engine["tokenize"];
  protected readonly inner: Engine;

  constructor(inner: Engine) {
    this.inner = inner;
    this.tokenize = inner.tokenize?.bind(inner);
  }

  get name(): string {
    return this.inner.name;
  }

  get capacity(): number {
    return this.inner.capacity;
  }

  get concurrency(): number | undefined {
    return this.inner.concurrency;
  }

  get choices(): Readonly<Record<string, Json>> {
    return this.inner.choices ?? {};
  }

  get stages(): readonly StageState[] | undefined {
    return this.inner.stages;
  }

  get batches(): readonly BatchState[] | undefined {
    return this.inner.batches;
  }

  get keepsRequests(): boolean | undefined {
    return this.inner.keepsRequests;
  }

  flush(): void {
    this.inner.flush?.();
  }

  abstract infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse>;

  close(): Promise<void> {
    return this.inner.close();
  }
}
