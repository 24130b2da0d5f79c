import { Agent } from "undici";
import { describe, expect, it } from "vitest";
import { askRemote, networkReason } from "../../../src/engines/models/remote-file.ts";
import { serve } from "./serve.ts";

const sha256 = "ab".repeat(32);

describe("askRemote", () => {
  it("sends the token to the first host only", async () => {
    const far = await serve((_request, response) => void response.end("file"));
    const hub = await serve((request, response) => {
      const location = request.url === "/a" ? "/b" : `${far.origin}/c`;
      response.writeHead(302, { location, "x-linked-etag": `"${sha256}"`, "x-linked-size": "4" });
      response.end();
    });
    const answer = await askRemote({ url: `${hub.origin}/a`, token: "secret" }, new Agent());
    expect(await answer.body.text()).toBe("file");
    expect(hub.requests.map(({ headers }) => headers.authorization)).toEqual([
      "Bearer secret",
      "Bearer secret",
    ]);
    expect(far.requests.map(({ headers }) => headers.authorization)).toEqual([undefined]);
    expect(answer).toMatchObject({ isFirstHost: false, linkedSha256: sha256, linkedBytes: 4 });
  });

  it("does not believe a far host's word on what the hub linked", async () => {
    const far = await serve((_request, response) => {
      response.writeHead(200, { "x-linked-etag": `"${sha256}"` }).end();
    });
    const hub = await serve((_request, response) => {
      response.writeHead(302, { location: far.origin }).end();
    });
    const answer = await askRemote({ url: hub.origin }, new Agent());
    expect(answer.linkedSha256).toBeUndefined();
  });

  it("ends a circle of redirects", async () => {
    const circle = await serve((_request, response) => {
      response.writeHead(302, { location: "/" }).end();
    });
    await expect(askRemote({ url: circle.origin }, new Agent())).rejects.toThrow(/more than 10/);
  });
});

describe("networkReason", () => {
  it("tells no credentials", () => {
    expect(networkReason(new Error("proxy http://user:pass@host failed"))).toBe(
      "proxy http://host failed",
    );
  });
});
