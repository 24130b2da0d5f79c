import { describe, expect, it } from "vitest";
import { playJob } from "../random-jobs/play-job.ts";

const { TEST_SLUICE_JOBS = "3", TEST_SLUICE_SEED = String(Date.now() % 2 ** 31) } = process.env;
const jobs = Number(TEST_SLUICE_JOBS);
const firstSeed = Number(TEST_SLUICE_SEED);

describe("random jobs, through the packed program", () => {
  it(`${jobs} jobs come to what a list of rows comes to`, async () => {
    console.log(`TEST_SLUICE_SEED=${firstSeed} TEST_SLUICE_JOBS=${jobs} draws the same jobs`);
    const failures: string[] = [];
    let next = firstSeed;
    const playNext = async () => {
      while (next < firstSeed + jobs && failures.length < 5) {
        await playJob(next++).catch((error) => {
          console.error(error);
          failures.push(error.message);
        });
      }
    };
    await Promise.all([playNext(), playNext()]);
    expect(failures).toEqual([]);
  }, 10_000_000);
});
