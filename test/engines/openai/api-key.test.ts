import { describe, expect, it } from "vitest";
import { apiKey, checkKeys } from "../../../src/engines/openai/api-key.ts";
import type { SluiceError } from "../../../src/foundation/errors.ts";

describe("apiKey", () => {
  it("is that of the variable named, else of the usual one", () => {
    const environment = { OPENAI_API_KEY: "usual", OWN: " own\n" };
    expect(apiKey({}, environment)).toEqual({ variable: "OPENAI_API_KEY", value: "usual" });
    expect(apiKey({ apiKeyEnv: "OWN" }, environment)).toEqual({ variable: "OWN", value: "own" });
    expect(apiKey({}, {})).toBeUndefined();
  });

  it.each([{}, { OWN: "" }, { OWN: " " }])("is missing in %j where it is named", (environment) => {
    const named = () => apiKey({ apiKeyEnv: "OWN" }, environment);
    expect(named).toThrow(expect.objectContaining({ code: "ENV_MISSING" }));
  });

  it("has no characters that could stand in no header", () => {
    const named = () => apiKey({}, { OPENAI_API_KEY: "a\u00e4" });
    expect(named).toThrow(expect.objectContaining({ code: "JOB_INVALID" }));
  });
});

describe("checkKeys", () => {
  const environment = { OPENAI_API_KEY: "sk-usual-1", OTHER: "other-key-2" };
  const endpoints = [
    { baseUrl: "http://a/v1", weight: 1 },
    { baseUrl: "http://other-key-2/v1", weight: 1, apiKeyEnv: "OTHER" },
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
    expect(faultOf({ endpoints }, { OTHER: "" })?.[0]).toBe("ENV_MISSING");
  });

  it("refuses options that hold one, for plans are kept", () => {
    const extraBody = { metadata: { owner: "sk-usual-1" } };
    expect(faultOf({ extraBody })).toEqual(["JOB_INVALID", "model.extraBody", "OPENAI_API_KEY"]);
    const baseUrl = "http://a/v1?owner=sk-usual-1";
    expect(faultOf({ baseUrl })).toEqual(["JOB_INVALID", "model.baseUrl", "OPENAI_API_KEY"]);
    const both = [{ baseUrl: "http://a/other-key-2/v1", weight: 1 }, ...endpoints];
    expect(faultOf({ endpoints: both })?.[2]).toBe("OTHER");
  });

  it("takes no word for a key that servers take in place of none", () => {
    expect(faultOf({ baseUrl: "http://a/none" }, { OPENAI_API_KEY: "none" })).toBeUndefined();
  });
});
