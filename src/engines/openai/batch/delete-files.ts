import { asSluiceError, SluiceError } from "../../../foundation/errors.ts";
import type { KeptBatch } from "../../batch-records.ts";
import type { EngineContext } from "../../engine.ts";
import type { OpenaiModelOptions } from "../options.ts";
import { Provider } from "./provider.ts";
import { isOver } from "./sent-batch.ts";
import { providerBatchOptions } from "./settings.ts";

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
