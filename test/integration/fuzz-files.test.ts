import { describe, expect, it } from "vitest";
import { fuzzFiles } from "../fuzz/fuzz-files.ts";

const { TEST_SLUICE_FILES = "100", TEST_SLUICE_SEED = String(Date.now() % 2 ** 31) } = process.env;
const files = Number(TEST_SLUICE_FILES);
const firstSeed = Number(TEST_SLUICE_SEED);

describe("files that were whole once", () => {
  it(`${files} of them read as rows or are refused by name`, async () => {
    console.log(`TEST_SLUICE_SEED=${firstSeed} TEST_SLUICE_FILES=${files} makes the same files`);
    const report = await fuzzFiles(files, firstSeed);
    const { readable, refused, ended, peakBytes, ...found } = report;
    const peak = `peak memory ${Math.round(peakBytes / 1024 / 1024)} MB`;
    console.log(`${readable} read, ${refused} refused, ${ended} of them ended; ${peak}`);
    expect(found).toEqual({ files, hangs: [], unnamed: [], silentLosses: [] });
    expect(readable).toBeGreaterThan(0);
    expect(refused).toBeGreaterThan(0);
  }, 10_000_000);
});
