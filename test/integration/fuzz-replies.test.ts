import { expect, it } from "vitest";
import { fuzzReplies } from "../fuzz/fuzz-replies.ts";

const { TEST_SLUICE_REPLIES: count = "100", TEST_SLUICE_SEED: firstSeed = "1" } = process.env;

it("hostile replies of servers end as answers or as named errors", async () => {
  const report = await fuzzReplies(Number(count), Number(firstSeed));
  expect(report).toMatchObject({ hangs: [], unnamed: [], wrong: [] });
  expect(report.answered + report.refused).toBe(report.replies);
  // Both ends are met, else the replies would not be what they are meant to be.
  expect(report.answered).toBeGreaterThan(report.replies / 10);
  expect(report.refused).toBeGreaterThan(report.replies / 10);
});
