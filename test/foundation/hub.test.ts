import { describe, expect, it } from "vitest";
import { hubEndpoint, hubPath, isHubOffline } from "../../src/foundation/hub.ts";

describe("hubEndpoint", () => {
  it("is the hub, or what HF_ENDPOINT names", () => {
    expect(hubEndpoint({})).toBe("https://huggingface.co");
    expect(hubEndpoint({ HF_ENDPOINT: "http://127.0.0.1:9/x//" })).toBe("http://127.0.0.1:9/x");
  });
});

describe("hubPath", () => {
  it("escapes all but the slashes between folders", () => {
    expect(hubPath("refs/pr/1", "a b/c#d.jsonl")).toBe("refs%2Fpr%2F1/a%20b/c%23d.jsonl");
  });
});

describe("isHubOffline", () => {
  it("follows HF_HUB_OFFLINE", () => {
    const offline = ["1", "true", "YES", "", "0", "no"].filter((HF_HUB_OFFLINE) =>
      isHubOffline({ HF_HUB_OFFLINE }),
    );
    expect(offline).toEqual(["1", "true", "YES"]);
    expect(isHubOffline({})).toBe(false);
  });
});
