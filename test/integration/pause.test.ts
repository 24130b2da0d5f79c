import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { seededRandom } from "../../src/foundation/random.ts";
import { missingHosts, runUnderPauses } from "../chaos/pause-round.ts";

const seed = Number(process.env.TEST_SLUICE_SEED ?? Date.now() % 2 ** 31);
const folder = mkdtempSync(join(tmpdir(), "sluice-pauses-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("processes that are stopped and go on later", () => {
  it(`change nothing of what others did meanwhile, under seed ${seed}`, async (context) => {
    context.skip(missingHosts !== undefined, missingHosts);
    const report = await runUnderPauses({ pauses: 6, random: seededRandom(seed), folder });
    expect(report.violations).toEqual([]);
    expect(report.pauses).toBeGreaterThanOrEqual(6);
  });
});
