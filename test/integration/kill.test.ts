import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { seededRandom } from "../../src/foundation/random.ts";
import { killKinds, runUnderKills } from "../chaos/kill-round.ts";

// The moments are drawn anew each time: what happens in between depends on the machine anyway.
const { SLUICE_CHAOS_SEED = String(Date.now() % 2 ** 31) } = process.env;
const seed = Number(SLUICE_CHAOS_SEED);
const { TEST_SLUICE_KILLS = "5" } = process.env;
const kills = Number(TEST_SLUICE_KILLS);

describe("kill -9 loses no row and asks none twice but those in flight", () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-kill-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  for (const kind of killKinds) {
    it(`of the ${kind}`, async () => {
      console.log(`SLUICE_CHAOS_SEED=${seed} draws the same moments for kind ${kind}`);
      const random = seededRandom(seed + killKinds.indexOf(kind));
      const report = await runUnderKills({ kind, kills, random, folder });
      expect(report.violations).toEqual([]);
      expect(report.kills).toBe(kills);
      expect(report.askedAgain).toBeLessThanOrEqual(report.inFlightAtKills);
    });
  }
});
