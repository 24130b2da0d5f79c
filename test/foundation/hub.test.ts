import { describe, expect, it } from "vitest";
import { hubEndpoint, hubPath, hubRefusal, isHubOffline } from "../../src/foundation/hub.ts";

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

describe("hubRefusal", () => {
  const page = "https://huggingface.co/o/r";
  const read = (status: number, code?: string, HF_TOKEN?: string) =>
    hubRefusal({ status, code }, { page, environment: { HF_TOKEN } });

  it.each([
    [401, "RepoNotFound", undefined, true, "check owner and name, or set HF_TOKEN"],
    [404, "RepoNotFound", "x", true, "check owner and name, and what HF_TOKEN may read"],
    [401, "GatedRepo", undefined, false, "an account of yours, and set HF_TOKEN"],
    [403, "GatedRepo", "x", false, "the account that HF_TOKEN belongs to"],
    [401, undefined, "x", false, "huggingface.co/settings/tokens"],
    [401, undefined, undefined, false, "or set HF_TOKEN if it is private"],
    [403, undefined, "x", false, "ask for access at"],
    [404, "RevisionNotFound", undefined, true, "see its branches"],
    [404, "EntryNotFound", undefined, true, "see its files"],
    [404, undefined, undefined, true, "check owner, name and file"],
  ])("of %i, %s, with token %s", (status, code, token, isAbsent, hint) => {
    expect(read(status, code, token)).toMatchObject({
      isAbsent,
      hint: expect.stringContaining(hint),
    });
  });

  it("is undefined if the server has trouble of its own", () => {
    expect(read(503)).toBeUndefined();
    expect(read(429, undefined, "x")).toBeUndefined();
  });
});
