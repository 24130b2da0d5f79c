import { describe, expect, it } from "vitest";
import type { JobSpec } from "../../../src/run/job/schema.ts";
import type { Manifest } from "../../../src/run/seal/manifest.ts";
import {
  duplicatesNotice,
  rate,
  rounded,
  sealedSummary,
  summaryErrors,
} from "../../../src/run/status/summary.ts";

const manifest = {
  runId: "20260101T000000Z",
  seed: 5,
  rows: { total: 10, answered: 8, filtered: 0, failed: 2, results: 8 },
  requests: { planned: 20, answered: 17 },
  usage: { promptTokens: 100, cachedTokens: 0, completionTokens: 50 },
  errors: { SERVER_ERROR: { count: 2, message: "busy" } },
} as unknown as Manifest;
const facts = {
  runTimeSec: 4.00049,
  resumedRows: 3,
  generatedTokens: 30,
  output: "/out",
  manifestPath: "/out/_manifest.json",
};

const job = { model: { engine: "fake" } } as JobSpec;

describe("sealedSummary", () => {
  it("counts the whole run, and gives seconds and rates of this call", () => {
    expect(sealedSummary(manifest, job, facts, false)).toEqual({
      status: "FAILED",
      run_id: "20260101T000000Z",
      request_count: 20,
      response_count: 17,
      run_time_sec: 4,
      prompt_tokens: 100,
      total_tokens_generated: 50,
      tokens_per_sec: 7.499,
      seed: 5,
      rows: { total: 10, answered: 8, failed: 2, resumed: 3 },
      errors: { SERVER_ERROR: 2 },
      error_messages: { SERVER_ERROR: "busy" },
      output: "/out",
      manifest: "/out/_manifest.json",
      sealed: true,
    });
    expect(sealedSummary(manifest, job, facts, true).status).toBe("SUCCESS");
  });

  it("counts the results of a pipeline, also where no engine is known to whoever sealed", () => {
    const rows = { ...manifest.rows, filtered: 1, results: 9 };
    const pipeline = { model: { engine: "pipeline", stages: [] } } as unknown as JobSpec;
    const sealed = sealedSummary({ ...manifest, rows, engine: null }, pipeline, facts, true);
    expect(sealed.rows).toMatchObject({ filtered: 1, results: 9 });
  });

  it("says how many answers were paid for before", () => {
    const requests = { planned: 20, answered: 17, reused: 4 };
    expect(sealedSummary({ ...manifest, requests }, job, facts, true).reused_count).toBe(4);
  });

  it("has no errors where there are none", () => {
    expect(summaryErrors({})).toEqual({ errors: {}, error_messages: {} });
  });
});

describe("duplicatesNotice", () => {
  it("says how many rows have the id of another, and which is the first", () => {
    expect(duplicatesNotice({ duplicateIds: null })).toBeUndefined();
    expect(duplicatesNotice({ duplicateIds: { count: 0, examples: [] } })).toBeUndefined();
    const examples: { rows: [number, number] }[] = [{ rows: [3, 8] }, { rows: [4, 9] }];
    expect(duplicatesNotice({ duplicateIds: { count: 1, examples } })).toBe(
      "1 row repeats the id of an earlier one: row 8 that of row 3, from 0",
    );
    expect(duplicatesNotice({ duplicateIds: { count: 2, examples } })).toContain("2 rows repeat");
  });
});

describe("numbers", () => {
  it("have three digits, and no rate where no time passed", () => {
    expect(rounded(1.23456)).toBe(1.235);
    expect([rate(10, 4), rate(10, 0)]).toEqual([2.5, 0]);
  });
});
