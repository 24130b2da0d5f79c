import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { seededRandom } from "../../src/foundation/random.ts";
import { missingS3Server } from "../s3-server.ts";
import { type KillReport, killKinds, runUnderKills } from "./kill-round.ts";
import { missingHosts, runUnderPauses } from "./pause-round.ts";
import { startS3Store } from "./s3-store.ts";

/**
 * `npm run chaos -- --kills 1000 --seed 7`: kills of real processes, for as long as you like; with
 * `--store s3` the runs lie in a real S3 server, which is killed as well. `--pauses 300` stops
 * processes instead, and lets them go on when others have taken their place.
 */
const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "90" },
    pauses: { type: "string" },
    seed: { type: "string", default: String(Date.now() % 2 ** 31) },
    store: { type: "string", default: "local" },
  },
});
const isFar = values.store === "s3";
const kinds = isFar ? ([...killKinds, "store"] as const) : killKinds;
const kills = Math.ceil(Number(values.kills) / kinds.length);
const seed = Number(values.seed);
if (!Number.isSafeInteger(kills) || kills < 1 || !Number.isSafeInteger(seed)) {
  throw new Error("usage: npm run chaos -- [--kills 1000 | --pauses 300] [--seed 7] [--store s3]");
}
if (isFar && missingS3Server !== undefined) throw new Error(missingS3Server);

function describe({ kills, runs, calls, askedAgain, inFlightAtKills }: KillReport): string {
  const asks = `${askedAgain} rows asked again of ${inFlightAtKills} in flight`;
  return `${kills} kills in ${runs} runs and ${calls} calls, ${asks}`;
}

console.log(`seed ${seed}`);
const folder = mkdtempSync(join(tmpdir(), "sluice-chaos-"));
const far = isFar ? await startS3Store(join(folder, "home")) : undefined;
let violations = 0;
if (values.pauses !== undefined) {
  if (missingHosts !== undefined) throw new Error(missingHosts);
  const report = await runUnderPauses({
    ...{ pauses: Number(values.pauses), random: seededRandom(seed), folder },
    ...(far && { far }),
    onProgress: ({ pauses, misses, mended }) =>
      console.log(
        `${pauses} pauses, ${misses} too late, after ${mended} of them views were mended`,
      ),
  });
  for (const violation of report.violations) console.log(`VIOLATION: ${violation}`);
  violations = report.violations.length;
}
for (const kind of values.pauses === undefined ? kinds : []) {
  const random = seededRandom(seed + kinds.indexOf(kind));
  const onProgress = (report: KillReport) => console.log(`${kind}: ${describe(report)}`);
  const report = await runUnderKills({
    ...{ kind, kills, random, folder, onProgress },
    ...(far && { far }),
  });
  for (const violation of report.violations) console.log(`VIOLATION ${kind}: ${violation}`);
  violations += report.violations.length;
}
await far?.stop();
if (violations === 0) {
  rmSync(folder, { recursive: true });
  console.log("every row was answered exactly once in every run");
} else {
  console.log(`${violations} violations; what they left lies in ${folder}`);
  process.exitCode = 1;
}
