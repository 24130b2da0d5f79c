import { asSluiceError, SluiceError } from "../../../foundation/errors.ts";
import type { KeptBatch } from "../../batch-records.ts";
import type { EngineContext } from "../../engine.ts";
import type { OpenaiModelOptions } from "../options.ts";
import { Provider } from "./provider.ts";
import { isOver, wantedOf } from "./sent-batch.ts";
import { providerBatchOptions } from "./settings.ts";

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

/** Longest time of one call: a run does not wait for long to leave no files. */
const maxCallMs = 30_000;

/**
 * Deletes the files of batches at their provider, whose answers are kept. It stops at the first
 * that cannot be deleted.
 *
 * @returns why files stay; undefined if none does, or if `keepFiles` wants it so.
 */
export async function deleteBatchFiles(
  options: OpenaiModelOptions,
  context: EngineContext,
  batches: readonly KeptBatch[],
): Promise<string | undefined> {
  if (providerBatchOptions(options).keepFiles) return undefined;
  const timeoutMs = Math.min(options.timeoutMs, maxCallMs);
  const provider = new Provider({ ...options, timeoutMs, maxEndpointDownMs: 0 }, context);
  try {
    for (const { record, batch } of batches) {
      const seen = batch === undefined ? undefined : await provider.look(batch);
      if (seen && !isOver(seen)) continue;
      for (const file of [record.inputFile, seen?.outputFile, seen?.errorFile]) {
        const reason = file === undefined ? undefined : await provider.delete(file);
        if (reason !== undefined) return reason;
      }
    }
    return undefined;
  } catch (error) {
    return asSluiceError(error).message;
  } finally {
    await provider.close(new SluiceError("ENGINE_DIED", "it was closed"));
  }
}
