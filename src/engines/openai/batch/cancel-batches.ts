import { SluiceError } from "../../../foundation/errors.ts";
import type { KeptBatch } from "../../batch-records.ts";
import type { EngineContext } from "../../engine.ts";
import type { OpenaiModelOptions } from "../options.ts";
import { Provider } from "./provider.ts";
import { isOver, wantedOf } from "./sent-batch.ts";

/**
 * Cancels batches at their provider, except those that are over.
 *
 * @param batches each with the provider's id, if it is known: else it is searched for.
 * @param patienceMs longest time without success; default: `maxEndpointDownMs`.
 * @returns how many were cancelled.
 * @throws SluiceError as the methods of `Provider`.
 */
export async function cancelBatches(
  options: OpenaiModelOptions,
  context: EngineContext,
  run: string,
  batches: readonly KeptBatch[],
  patienceMs = options.maxEndpointDownMs,
): Promise<number> {
  const provider = new Provider({ ...options, maxEndpointDownMs: patienceMs }, context);
  let canceled = 0;
  try {
    for (const { record, batch } of batches) {
      const found =
        batch === undefined
          ? await provider.find(wantedOf(record, run))
          : await provider.look(batch);
      if (found === undefined || isOver(found)) continue;
      await provider.cancel(found.id);
      canceled++;
    }
    return canceled;
  } finally {
    await provider.close(new SluiceError("ENGINE_DIED", "it was closed"));
  }
}
