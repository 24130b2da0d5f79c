import { describe, expect, it } from "vitest";
import { apiKey, checkKeys, namesApiKey } from "../../../src/engines/openai/api-key.ts";
import type { SluiceError } from "../../../src/foundation/errors.ts";

describe("apiKey", () => {
  const baseUrl = "https://api.openai.com/v1";

  it("is that of the variable named, else of the usual one", () => {
    const environment = { OPENAI_API_KEY: "usual", OWN: " own\n" };
    const named = { baseUrl, apiKeyEnv: "OWN" };
    expect(apiKey({ baseUrl }, environment)).toEqual({
      variable: "OPENAI_API_KEY",
      value: "usual",
    });
    expect(apiKey(named, environment)).toEqual({ variable: "OWN", value: "own" });
    expect(apiKey({ baseUrl }, {})).toBeUndefined();
  });

  it.each([
    ["https://eu.api.openai.com/v1", true],
    ["http://api.openai.com/v1", false],
    ["https://api.openai.com.evil.example/v1", false],
    ["https://evil.example/api.openai.com", false],
    ["https://evilapi.openai.com.x/", false],
    ["http://127.0.0.1:8000/v1", false],
  ])("of the usual variable goes to servers of OpenAI alone: %s", (address, isSent) => {
    const environment = { OPENAI_API_KEY: "usual" };
    expect(apiKey({ baseUrl: address }, environment) !== undefined).toBe(isSent);
    const written = { baseUrl: address, apiKeyEnv: "OPENAI_API_KEY" };
    expect(apiKey(written, environment)?.value).toBe("usual");
  });

  it("has the name of one", () => {
    const names = ["OPENAI_API_KEY", "GATEWAY_KEY", "HF_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"];
    expect(names.filter((name) => !namesApiKey(name))).toEqual([]);
    const others = [
      ...["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "NPM_TOKEN", "PATH"],
      ...["DB_PASSWORD", "SSH_PRIVATE_KEY", "HOME", "DATABASE_URL", "SIGNING_KEY"],
    ];
    expect(others.filter(namesApiKey)).toEqual([]);
  });

  it.each([{}, { OWN: "" }, { OWN: " " }])("is missing in %j where it is named", (environment) => {
    const named = () => apiKey({ baseUrl, apiKeyEnv: "OWN" }, environment);
    expect(named).toThrow(expect.objectContaining({ code: "ENV_MISSING" }));
  });

  it("has no characters that could stand in no header", () => {
    const named = () => apiKey({ baseUrl }, { OPENAI_API_KEY: "a\u00e4" });
    expect(named).toThrow(expect.objectContaining({ code: "JOB_INVALID" }));
  });
});

describe("checkKeys", () => {
  const environment = { OPENAI_API_KEY: "sk-usual-1", OTHER_KEY: "other-key-2" };
  const endpoints = [
    { baseUrl: "http://a/v1", weight: 1 },
    { baseUrl: "http://other-key-2/v1", weight: 1, apiKeyEnv: "OTHER_KEY" },
  ];
  const faultOf = (options: Parameters<typeof checkKeys>[0], changes = {}) => {
    try {
      checkKeys(options, { ...environment, ...changes });
      return undefined;
    } catch (error) {
      const { code, place, message } = error as SluiceError;
      expect(message).not.toMatch(/sk-usual|other-key/);
      return [code, place.field, /it holds the value of (\w+)/.exec(message)?.[1]];
    }
  };

  it("needs the keys of all endpoints", () => {
    expect(faultOf({ endpoints })).toBeUndefined();
    expect(faultOf({ endpoints }, { OTHER_KEY: "" })?.[0]).toBe("ENV_MISSING");
  });

  it("refuses variables that are for something else", () => {
    const baseUrl = "https://gateway.example/v1";
    const refused = faultOf({ baseUrl, apiKeyEnv: "AWS_SECRET_ACCESS_KEY" });
    expect(refused?.slice(0, 2)).toEqual(["JOB_INVALID", "model.apiKeyEnv"]);
    const inner = [{ baseUrl, weight: 1, apiKeyEnv: "DB_PASSWORD" }];
    expect(faultOf({ endpoints: inner })?.[1]).toBe("model.apiKeyEnv");
  });

  it("refuses options that hold one, for plans are kept", () => {
    const extraBody = { metadata: { owner: "sk-usual-1" } };
    expect(faultOf({ extraBody })).toEqual(["JOB_INVALID", "model.extraBody", "OPENAI_API_KEY"]);
    const baseUrl = "http://a/v1?owner=sk-usual-1";
    expect(faultOf({ baseUrl })).toEqual(["JOB_INVALID", "model.baseUrl", "OPENAI_API_KEY"]);
    const both = [{ baseUrl: "http://a/other-key-2/v1", weight: 1 }, ...endpoints];
    expect(faultOf({ endpoints: both })?.[2]).toBe("OTHER_KEY");
  });

  it("takes no word for a key that servers take in place of none", () => {
    expect(faultOf({ baseUrl: "http://a/none" }, { OPENAI_API_KEY: "none" })).toBeUndefined();
  });
});
