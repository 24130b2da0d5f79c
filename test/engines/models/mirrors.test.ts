import { describe, expect, it } from "vitest";
import { resolveModel } from "../../../src/engines/models/models.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { ggufBytes, modelContext } from "./context.ts";
import { sendFile, serve } from "./serve.ts";

const file = ggufBytes(100_000);
const download = true;

describe("resolveModel from the hub by name", () => {
  it("sends HF_TOKEN to the hub and checks what the hub says of the file", async () => {
    const far = await serve(sendFile(file));
    const server = await serve((_request, response) => {
      const tag = `"${sha256Hex(file)}"`;
      response.writeHead(302, { location: `${far.origin}/x`, "x-linked-etag": tag }).end();
    });
    const context = await modelContext({ HF_ENDPOINT: server.origin, HF_TOKEN: "secret" });
    const model = await resolveModel("hf:o/r@v1/q/a.gguf", context, { download });
    expect(model).toMatchObject({ source: "hub", sha256: sha256Hex(file) });
    expect(server.requests).toMatchObject([
      { url: "/o/r/resolve/v1/q/a.gguf", headers: { authorization: "Bearer secret" } },
    ]);
    expect(far.requests[0]?.headers.authorization).toBeUndefined();
  });

  it("refuses a file that is not what the hub says", async () => {
    const server = await serve((request, response) => {
      response.setHeader("x-linked-etag", `"${"0".repeat(64)}"`);
      sendFile(file)(request, response);
    });
    const context = await modelContext({ HF_ENDPOINT: server.origin });
    await expect(resolveModel("hf:o/r/a.gguf", context, { download })).rejects.toMatchObject({
      code: "MODEL_DOWNLOAD_FAILED",
    });
  });

  it.each([
    [401, "GatedRepo", {}, "MODEL_FORBIDDEN", /ask for access at .*\/o\/r .*set HF_TOKEN/],
    [403, undefined, { HF_TOKEN: "x" }, "MODEL_FORBIDDEN", /account that HF_TOKEN belongs to/],
    [401, undefined, { HF_TOKEN: "old" }, "MODEL_FORBIDDEN", /set HF_TOKEN .* valid/],
    [401, "RepoNotFound", {}, "MODEL_UNKNOWN", /check owner and name, or set HF_TOKEN/],
  ])("tells what the hub means by %i %s", async (status, said, environment, code, hint) => {
    const server = await serve((_request, response) => {
      response.writeHead(status, said === undefined ? {} : { "x-error-code": said }).end();
    });
    const context = await modelContext({ HF_ENDPOINT: server.origin, ...environment });
    await expect(resolveModel("hf:o/r/a.gguf", context, { download })).rejects.toMatchObject({
      code,
      hint: expect.stringMatching(hint),
    });
  });

  it("says that there is no such file", async () => {
    const server = await serve((_request, response) => void response.writeHead(404).end());
    const context = await modelContext({ HF_ENDPOINT: server.origin });
    await expect(resolveModel("hf:o/r/a.gguf", context, { download })).rejects.toMatchObject({
      code: "MODEL_UNKNOWN",
    });
  });
});
