import { describe, expect, it } from "vitest";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { endpointsOf } from "../../../src/engines/openai/api-key.ts";
import { providerBatchOptions } from "../../../src/engines/openai/batch/settings.ts";
import type { OpenaiModelOptions } from "../../../src/engines/openai/options.ts";

const parse = (changes: object) =>
  modelOptions.safeParse({ engine: "openai", name: "m", ...changes });
const optionsOf = (changes: object) => parse(changes).data as OpenaiModelOptions;
const faultOf = (changes: object) => {
  const [issue] = parse(changes).error?.issues ?? [];
  return [issue?.path.join("."), issue?.message];
};

describe("where a model is asked", () => {
  it("is one address, or several with their weights and keys", () => {
    expect(endpointsOf(optionsOf({}))).toEqual([
      { baseUrl: "https://api.openai.com/v1", weight: 1 },
    ]);
    const [baseUrl, other] = ["http://a/v1", "http://b/v1"];
    const apiKeyEnv = "KEY";
    expect(endpointsOf(optionsOf({ baseUrl, apiKeyEnv }))).toEqual([
      { baseUrl, weight: 1, apiKeyEnv },
    ]);
    const endpoints = [{ baseUrl, weight: 3, apiKeyEnv: "OWN" }, { baseUrl: other }];
    expect(endpointsOf(optionsOf({ endpoints, apiKeyEnv }))).toEqual([
      { baseUrl, weight: 3, apiKeyEnv: "OWN" },
      { baseUrl: other, weight: 1, apiKeyEnv },
    ]);
  });

  it("is not said twice", () => {
    const baseUrl = "http://a/v1";
    const endpoints = [{ baseUrl }, { baseUrl: "http://b/v1" }];
    expect(faultOf({ baseUrl, endpoints })[0]).toBe("endpoints");
    expect(faultOf({ endpoints: [...endpoints, { baseUrl }] })[0]).toBe("endpoints.2.baseUrl");
    expect(faultOf({ endpoints: [] })[0]).toBe("endpoints");
    expect(faultOf({ endpoints: [{ baseUrl, weight: 0 }] })[0]).toBe("endpoints.0.weight");
  });
});

describe("an address", () => {
  it.each(["http://a/v1", "https://a.example/v1?api-version=2&model=b"])("is %s", (baseUrl) => {
    expect(optionsOf({ baseUrl }).baseUrl).toBe(baseUrl);
  });

  it.each(["ftp://a/v1", "a/v1", "localhost:8000/v1", "file:///v1"])("is not %s", (baseUrl) => {
    expect(faultOf({ baseUrl })[0]).toBe("baseUrl");
    expect(faultOf({ endpoints: [{ baseUrl }] })[0]).toBe("endpoints.0.baseUrl");
  });

  it.each(["api-key", "API_KEY", "key", "access_token", "sig"])(
    "has no %s in its query",
    (name) => {
      const [path, message] = faultOf({ baseUrl: `http://a/v1?a=1&${name}=sk-1` });
      expect([path, message]).toEqual(["baseUrl", expect.stringContaining(`${name} in its query`)]);
      expect(message).not.toContain("sk-1");
    },
  );
});

describe("extraBody", () => {
  it("takes any JSON by any name that is not the job's own", () => {
    const extraBody = { dimensions: 64, chat_template_kwargs: { enable_thinking: false } };
    expect(optionsOf({ extraBody }).extraBody).toEqual(extraBody);
  });

  it.each([
    ["max_tokens", "generation.maxNewTokens"],
    ["messages", "prompt"],
    ["response_format", "schema"],
    ["stream", "whole answers"],
    ["api_key", "apiKeyEnv"],
  ])("refuses %s, and says what has it", (name, meant) => {
    const [path, message] = faultOf({ extraBody: { [name]: 1 } });
    expect(path).toBe(`extraBody.${name}`);
    expect(message).toContain(meant);
  });
});

describe("requests in batches", () => {
  it("have limits with defaults", () => {
    expect(providerBatchOptions(optionsOf({ via: "batch" }))).toEqual({
      ...{ maxBatches: 4, maxRequests: 50_000, maxFileBytes: 200_000_000 },
      ...{ maxBatchDelayMs: 2000, pollMs: 15_000, maxPollMs: 300_000, keepFiles: false },
    });
    expect(optionsOf({}).via).toBe("requests");
  });

  it("refuse keys about single requests, which would do nothing", () => {
    const endpoints = [{ baseUrl: "http://a/v1" }];
    const single = { maxInFlight: 1, requestsPerMinute: 1, tokensPerMinute: 1, maxBatchRows: 1 };
    for (const [key, value] of Object.entries({ endpoints, ...single })) {
      const why = "has no effect with via: batch: leave it out";
      expect(faultOf({ via: "batch", [key]: value })).toEqual([key, why]);
    }
    expect(faultOf({ batch: {} })).toEqual(["batch", "needs via: batch"]);
    expect(faultOf({ via: "batch", batch: { maxRequests: 50_001 } })[0]).toBe("batch.maxRequests");
  });
});
