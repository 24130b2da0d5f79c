import { describe, expect, it } from "vitest";
import { apiKey } from "../../../src/engines/openai/api-key.ts";

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
