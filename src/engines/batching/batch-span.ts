import type { InferenceRequest } from "../../foundation/inference.ts";
import { isSampled, type Span, type Telemetry } from "../../foundation/telemetry.ts";

/**
 * The span of a batch: below the first of its requests that is recorded, and linked to each of
 * these. Undefined if none is.
 */
export function batchSpan(telemetry: Telemetry, items: readonly unknown[]): Span | undefined {
  const traces = (items as readonly Pick<InferenceRequest, "trace">[]).flatMap(
    ({ trace }) => trace ?? [],
  );
  const recorded = traces.filter(isSampled);
  const links = [...new Map(recorded.map((trace) => [trace.traceparent, trace])).values()];
  const [parent] = links;
  if (parent === undefined) return undefined;
  return telemetry.start("batch", {
    ...{ parent, links },
    attributes: { "sluice.batch.size": items.length },
  });
}
