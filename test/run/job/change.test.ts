import { describe, expect, it } from "vitest";
import { changedJob } from "../../../src/run/job/change.ts";
import { jobFromValue } from "../../../src/run/job/from-value.ts";

describe("changedJob", () => {
  it("keeps rows and number of tasks of earlier versions, which took both", async () => {
    const job = jobFromValue(
      { input: "rows.jsonl", model: { engine: "fake" }, prompt: "Say {{ text }}" },
      "/data",
    );
    const stored = { ...job, shard: { ...job.shard, rows: 100, count: 8 } };
    const changed = await changedJob(stored, ["budget.tokens=5"], "/data", "/home/user");
    expect(changed.shard).toEqual(stored.shard);
    expect(changed.budget).toMatchObject({ tokens: 5 });
    const cut = await changedJob(stored, ["shard.rows=50"], "/data", "/home/user");
    expect(cut.shard).toMatchObject({ rows: 50 });
  });
});
