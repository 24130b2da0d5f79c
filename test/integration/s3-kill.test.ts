import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { seededRandom } from "../../src/foundation/random.ts";
import { type KillKind, runUnderKills } from "../chaos/kill-round.ts";
import { startS3Store } from "../chaos/s3-store.ts";
import { isLong } from "../long.ts";
import { missingS3Server } from "../s3-server.ts";

// `npm run chaos -- --store s3 --kills 1000` goes on for as long as you like.
const { SLUICE_CHAOS_SEED = String(Date.now() % 2 ** 31) } = process.env;
const seed = Number(SLUICE_CHAOS_SEED);
/** A group is a coordinator with its workers; `npm run test:long` kills either alone, too. */
const kinds: readonly KillKind[] = [
  ...(isLong ? (["worker", "coordinator"] as const) : []),
  ...(["group", "store"] as const),
];
/** Of each kind; `kill.test.ts` has more of them. */
const kills = Number(process.env.TEST_SLUICE_KILLS ?? "1");

describe("kill -9 of workers loses no row where a store has no conditional writes", () => {
  it("while one coordinator commits", async (context) => {
    context.skip(missingS3Server !== undefined, missingS3Server);
    const folder = mkdtempSync(join(tmpdir(), "sluice-s3-weak-"));
    const far = await startS3Store(join(folder, "home"), "none");
    try {
      const random = seededRandom(seed);
      const report = await runUnderKills({ kind: "worker", kills, random, folder, far });
      expect(report.violations).toEqual([]);
    } finally {
      await far.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe("kill -9 loses no row of a run in an object store", () => {
  beforeEach((context) => context.skip(missingS3Server !== undefined, missingS3Server));

  const folder = mkdtempSync(join(tmpdir(), "sluice-s3-kill-"));
  let far: Awaited<ReturnType<typeof startS3Store>>;
  beforeAll(async () => {
    if (missingS3Server === undefined) far = await startS3Store(join(folder, "home"));
  });
  afterAll(async () => {
    await far?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  for (const kind of kinds) {
    it(`of the ${kind}`, async () => {
      console.log(`SLUICE_CHAOS_SEED=${seed} draws the same moments for kind ${kind}`);
      const random = seededRandom(seed + kinds.indexOf(kind));
      const report = await runUnderKills({ kind, kills, random, folder, far });
      expect(report.violations).toEqual([]);
      expect(report.kills).toBe(kills);
      expect(report.askedAgain).toBeLessThanOrEqual(report.inFlightAtKills);
    });
  }
});
