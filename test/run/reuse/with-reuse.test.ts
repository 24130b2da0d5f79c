import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { promptSetOf } from "../../../src/run/plan/job-prompts.ts";
import { AnswerCache } from "../../../src/run/reuse/answer-cache.ts";
import { reuseNotices, withReuse } from "../../../src/run/reuse/reusing-engine.ts";
import { jobOf } from "../run-fixture.ts";
import { responseOf, scriptedEngine } from "../scripted-engine.ts";

const server = { engine: "openai", name: "m", baseUrl: "http://127.0.0.1:1" } as const;
const never = new AbortController().signal;

/** How often the engine of a job is asked the same by two rows. */
async function sent(changes: Partial<JobInput>, isCached = false): Promise<number> {
  const job = jobOf({ model: server, prompt: "the same", ...changes });
  const promptSet = promptSetOf(job, 1);
  const engine = scriptedEngine(8, () => responseOf("said"));
  const cache = isCached && { cache: new AnswerCache(memoryStorage(), 1e6) };
  const context = { logger: silentLogger, random: seededRandom(1), ...cache };
  const reusing = withReuse(engine, promptSet, job, context);
  for (const index of [0, 1]) await reusing.infer(promptSet.requests({}, index)[0]!, never);
  return engine.asked.length;
}

describe("withReuse", () => {
  it.each<[number, Partial<JobInput>, boolean]>([
    [1, {}, false],
    [1, { generation: { temperature: 1, seed: 3 } }, false],
    [2, { generation: { temperature: 1 } }, false],
    [2, { generation: { temperature: 1 } }, true],
    [2, { reuse: "off" }, false],
    [2, { reuse: "off" }, true],
    [2, { model: { engine: "fake" } }, false],
    [1, { model: { engine: "fake" } }, true],
  ])("sends %i of two equal requests with %j, cache: %s", async (expected, changes, isCached) => {
    expect(await sent(changes, isCached)).toBe(expected);
  });
});

describe("reuseNotices", () => {
  const cache = "/answers";

  it("say when a cache is not used", () => {
    expect(reuseNotices(jobOf({ cache, reuse: "off" }))[0]).toContain("because reuse is off");
    const sampled = { generation: { temperature: 1 } };
    expect(reuseNotices(jobOf({ cache, ...sampled }))[0]).toContain("generation.seed is not set");
    expect(reuseNotices(jobOf(sampled))).toEqual([]);
    expect(reuseNotices(jobOf({ cache }))).toEqual([]);
  });
});
