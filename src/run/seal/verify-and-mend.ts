import type { Mender } from "../coordinate/menders.ts";
import type { OutputPlaces } from "../output/plan-outputs.ts";
import { completeSeal } from "./publish-seal.ts";
import { type Damage, type Verification, verifyRun } from "./verify.ts";

/** What a verification found, and what of it was mended. */
export interface MendedVerification extends Verification {
  /** Views of the results that were not as the seal says, and are now. */
  mended: readonly Damage[];
}

/**
 * Recomputes what the newest seal states, as `verifyRun` does; views of it that are damaged are
 * published again, from the files that they are made of.
 *
 * @throws SluiceError `NOT_A_RUN` where there is no run.
 */
export async function verifyAndMend(
  places: OutputPlaces,
  mender: Mender,
): Promise<MendedVerification> {
  const { storage, outside, openStorage } = places;
  const found = await verifyRun(storage, outside, openStorage);
  if (!found.manifest || found.damages.length === 0) return { ...found, mended: [] };
  try {
    await completeSeal(places, found.manifest, mender, "contents");
  } catch {
    // What cannot be mended, or not by who may only read, is named as it was found.
    return { ...found, mended: [] };
  }
  const now = await verifyRun(storage, outside, openStorage);
  const remaining = new Set(now.damages.map(({ file, problem }) => `${file}: ${problem}`));
  const mended = found.damages.filter(({ file, problem }) => !remaining.has(`${file}: ${problem}`));
  return { ...now, mended };
}
