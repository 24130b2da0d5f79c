import type { InferenceRequest } from "../../foundation/inference.ts";
import { isSampled } from "../../foundation/telemetry.ts";
import type { EngineContext } from "../engine.ts";
import type { BatchContext } from "./batched.ts";

/**
 * The same context for batches of requests: a batch has a span below the first of its requests that
 * is recorded, linked to each of these.
 */
export function tracingBatches<Context extends EngineContext>(
  context: Context,
): Context & Pick<BatchContext, "startSpan"> {
  const { telemetry } = context;
  if (!telemetry) return context;
  return {
    ...context,
    startSpan(items) {
      const traces = (items as readonly InferenceRequest[]).flatMap(({ trace }) => trace ?? []);
      const recorded = traces.filter(isSampled);
      const links = [...new Map(recorded.map((trace) => [trace.traceparent, trace])).values()];
      const [parent] = links;
      if (parent === undefined) return undefined;
      const attributes = { "sluice.batch.size": items.length };
      return telemetry.start("batch", { parent, links, attributes });
    },
  };
}
