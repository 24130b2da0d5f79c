import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, describe, expect, it } from "vitest";
import { root } from "../meta/source-tree.ts";

const { TEST_SLUICE_STRANGE_JOBS = "30", TEST_SLUICE_SEED = String(Date.now() % 2 ** 31) } =
  process.env;
const jobs = Number(TEST_SLUICE_STRANGE_JOBS);
const firstSeed = Number(TEST_SLUICE_SEED);

/** Longest that planning one job may take on a machine that does much else. */
const maxJobMs = 120_000;
const jobsOfProcess = 10;
/** Jobs that are drawn beyond those asked for, if too few of these were planned. */
const mostMoreJobs = 270;
const maxPeakMegabytes = 700;

const folder = mkdtempSync(join(tmpdir(), "sluice-strange-jobs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Planned {
  seed: number;
  end: string;
  peakMegabytes: number;
}

/** Plans jobs in a process of its own, until one hangs or ends it. */
function planFrom(first: number, count: number, onPlanned: (planned: Planned) => void) {
  return new Promise<string | undefined>((resolve) => {
    const program = join(root, "test/fuzz/strange-jobs-main.ts");
    const args = ["--expose-gc", program, folder, String(first), String(count)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    let why: string | undefined;
    const hang = () => {
      why = "hung";
      child.kill("SIGKILL");
    };
    let timer = setTimeout(hang, maxJobMs);
    createInterface({ input: child.stdout }).on("line", (line) => {
      clearTimeout(timer);
      timer = setTimeout(hang, maxJobMs);
      onPlanned(JSON.parse(line) as Planned);
    });
    child.once("close", (code, signal) => {
      clearTimeout(timer);
      resolve(why ?? (code === 0 ? undefined : `ended: ${signal ?? code}`));
    });
  });
}

describe("jobs as strangers write them", () => {
  it(`${jobs} of them are planned or refused by name, in time and in little memory`, async () => {
    console.log(
      `TEST_SLUICE_SEED=${firstSeed} TEST_SLUICE_STRANGE_JOBS=${jobs} draws the same jobs`,
    );
    const faults: string[] = [];
    const ends = new Map<string, number>();
    let peakMegabytes = 0;
    let next = firstSeed;
    // Most are refused, and some are fine: a test of nothing but refusals would test little. If
    // chance planned none of a few, more are drawn.
    const arePlanned = () => (ends.get("planned") ?? 0) > (next - firstSeed) / 20;
    let last = firstSeed + jobs;
    while (next < last && faults.length < 10) {
      // Not all in one process, whose memory would hold what earlier jobs left.
      const count = Math.min(jobsOfProcess, last - next);
      const why = await planFrom(next, count, (planned) => {
        next = planned.seed + 1;
        peakMegabytes = Math.max(peakMegabytes, planned.peakMegabytes);
        const [end = ""] = planned.end.split(":");
        ends.set(end, (ends.get(end) ?? 0) + 1);
        if (end === "unnamed") faults.push(`seed ${planned.seed}: ${planned.end}`);
      });
      if (why !== undefined) faults.push(`seed ${next++}: ${why}`);
      if (next >= last && !arePlanned() && last < firstSeed + jobs + mostMoreJobs) {
        last += jobsOfProcess;
      }
    }
    console.log(`peak memory ${peakMegabytes} MB`, Object.fromEntries(ends));
    expect(faults).toEqual([]);
    expect(peakMegabytes).toBeLessThan(maxPeakMegabytes);
    expect(arePlanned(), JSON.stringify(Object.fromEntries(ends))).toBe(true);
  }, 10_000_000);
});
