import { describe, expect, it } from "vitest";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { hostedNotice } from "../../../src/run/plan/notices.ts";
import { plannedRun } from "../run-fixture.ts";

const noticeFor = async (
  baseUrl: string,
  changes: Partial<JobInput> = {},
  stop = new AbortController(),
) => {
  const rows = Array.from({ length: 30 }, (_, index) => `{"text":"row ${index}"}`);
  const model: JobInput["model"] = { engine: "openai", name: "m", baseUrl };
  const { context } = await plannedRun(rows, { model, ...changes });
  return hostedNotice(context, stop.signal);
};

describe("hostedNotice", () => {
  it("estimates what a server of others will be asked", async () => {
    const notice = await noticeFor("https://api.example.com/v1", {
      generation: { maxNewTokens: 100 },
    });
    expect(notice).toMatch(/^about to send 30 requests to api\.example\.com: about \d+ prompt/);
    expect(notice).toContain("at most 3,000 new ones");
  });

  it("is silent once the run is stopped", async () => {
    const stop = new AbortController();
    stop.abort();
    expect(await noticeFor("https://api.example.com/v1", {}, stop)).toBeUndefined();
  });

  it.each(["http://127.0.0.1:8000/v1", "http://localhost/v1", "http://gpu-1:80/v1"])(
    "is silent for %s",
    async (baseUrl) => {
      expect(await noticeFor(baseUrl)).toBeUndefined();
    },
  );

  it("says of a pipeline which server a stage asks, and for how many rows at most", async () => {
    const server = { engine: "openai", name: "m", baseUrl: "https://api.example.com/v1" };
    const stages = [{ kind: "generate" as const, model: server, prompt: "{{ text }}" }];
    const notice = await noticeFor("", {
      model: { engine: "pipeline", stages },
      prompt: undefined,
    });
    expect(notice).toMatch(/^a stage is about to send 30 rows to api\.example\.com/);
  });

  it("is silent where the job has a budget, and for other engines", async () => {
    expect(await noticeFor("https://api.example.com/v1", { budget: {} })).toBeUndefined();
    expect(await noticeFor("", { model: { engine: "fake" } })).toBeUndefined();
  });
});
