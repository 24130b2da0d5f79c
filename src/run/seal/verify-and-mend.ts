import type { Mender } from "../coordinate/menders.ts";
import type { OutputPlaces } from "../output/plan-outputs.ts";
import { completeSeal } from "./publish-seal.ts";
import { type Damage, type Verification, verifyRun } from "./verify.ts";

/** The findings of a verification, with those that were mended. */
export interface MendedVerification extends Verification {
  /** Views of the results that were damaged, and now agree with the seal. */
  mended: readonly Damage[];
}

/**
 * Recomputes what the newest seal states, as `verifyRun` does, and publishes damaged views again
 * from their source files.
 *
 * @throws SluiceError `NOT_A_RUN` if there is no run.
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
    // What cannot be mended, for example without write access, is reported as found.
    return { ...found, mended: [] };
  }
  const now = await verifyRun(storage, outside, openStorage);
  const remaining = new Set(now.damages.map(({ file, problem }) => `${file}: ${problem}`));
  const mended = found.damages.filter(({ file, problem }) => !remaining.has(`${file}: ${problem}`));
  return { ...now, mended };
}
