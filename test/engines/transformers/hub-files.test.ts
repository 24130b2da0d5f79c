import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { hubFetch } from "../../../src/engines/transformers/hub-files.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import { ggufBytes, temporaryFolder } from "../models/context.ts";
import { sendFile, serve, type TestServer } from "../models/serve.ts";

const file = ggufBytes(100_000);

async function fetchFrom(server: TestServer, revision = "main") {
  const cacheDirectory = await temporaryFolder();
  const seen: number[] = [];
  const fetchFile = hubFetch({
    model: { kind: "hub", repository: "o/r", revision },
    cacheDirectory,
    environment: { HF_ENDPOINT: server.origin, HF_TOKEN: "secret" },
    logger: silentLogger,
    onFetch: (bytes) => void seen.push(bytes),
  });
  const fetchUrl = (path: string) => fetchFile(`${server.origin}/${path}`);
  const ask = (name: string) => fetchUrl(`o/r/resolve/${revision}/${name}`);
  return { cacheDirectory, seen, ask, fetchUrl };
}

describe("hubFetch", () => {
  it("puts a file where the package looks for it, and says that it fetches", async () => {
    const server = await serve(sendFile(file));
    const { cacheDirectory, seen, ask } = await fetchFrom(server, "v1");
    const reply = await ask("onnx/model.onnx");
    expect([reply.status, reply.headers.get("content-length")]).toEqual([200, `${file.length}`]);
    expect(Buffer.from(await reply.arrayBuffer())).toEqual(file);
    expect(await readdir(join(cacheDirectory, "o/r/v1/onnx"))).toEqual(["model.onnx"]);
    expect(server.requests[0]?.headers.authorization).toBe("Bearer secret");
    expect(seen).toEqual([0]);
  });

  it("takes any revision of the repository, and no other repository", async () => {
    const server = await serve(sendFile(file));
    const { cacheDirectory, fetchUrl } = await fetchFrom(server, "v1");
    await fetchUrl("o/r/resolve/main/tokenizer_config.json");
    await fetchUrl("o/r/resolve/refs%2Fpr%2F1/config.json");
    expect((await readdir(join(cacheDirectory, "o/r"))).sort()).toEqual([
      "refs",
      "tokenizer_config.json",
    ]);
    expect(await readdir(join(cacheDirectory, "o/r/refs/pr/1"))).toEqual(["config.json"]);
    await expect(fetchUrl("o/r2/resolve/v1/config.json")).rejects.toThrow(/is foreign/);
  });

  it("continues a file after a break", async () => {
    const held = (response: ServerResponse) => void setTimeout(() => response.destroy(), 20);
    const begin = sendFile(file, { hold: { bytes: 30_000, held } });
    const server = await serve((request, response) =>
      (request.headers.range === undefined ? begin : sendFile(file))(request, response),
    );
    const { ask } = await fetchFrom(server);
    expect(Buffer.from(await (await ask("model.onnx")).arrayBuffer())).toEqual(file);
    expect(server.requests.at(-1)?.headers.range).toMatch(/^bytes=\d+-$/);
  });

  it("continues what an earlier process left", async () => {
    const server = await serve(sendFile(file));
    const { cacheDirectory, ask } = await fetchFrom(server);
    const part = join(cacheDirectory, "o/r/model.onnx.part");
    await mkdir(join(cacheDirectory, "o/r"), { recursive: true });
    await writeFile(part, file.subarray(0, 70_000));
    const url = `${server.origin}/o/r/resolve/main/model.onnx`;
    await writeFile(`${part}.json`, JSON.stringify({ url, etag: '"one"' }));
    await ask("model.onnx");
    expect(await readFile(join(cacheDirectory, "o/r/model.onnx"))).toEqual(file);
    expect(server.requests.map(({ headers }) => headers.range)).toEqual(["bytes=70000-"]);
  });

  it.each([
    [404, "RepoNotFound", "MODEL_UNKNOWN"],
    [403, "GatedRepo", "MODEL_FORBIDDEN"],
    [400, undefined, "MODEL_DOWNLOAD_FAILED"],
  ])("refuses by name what the hub answers with %i %s", async (status, said, code) => {
    const headers = said === undefined ? {} : { "x-error-code": said };
    const server = await serve((_, response) => void response.writeHead(status, headers).end());
    const { ask } = await fetchFrom(server);
    await expect(ask("config.json")).rejects.toMatchObject({ code });
  });

  it.each([401, 403])("lets the package decide on a %i of one file", async (status) => {
    const server = await serve((request, response) => {
      const isOptional = request.url?.endsWith("generation_config.json");
      if (isOptional) return void response.writeHead(status).end();
      sendFile(file)(request, response);
    });
    const { ask } = await fetchFrom(server, "v1");
    const refused = { code: "MODEL_FORBIDDEN" };
    await expect(ask("generation_config.json")).rejects.toMatchObject(refused);
    await ask("config.json");
    expect((await ask("generation_config.json")).status).toBe(status);
  });

  it("refuses a gated repository by name, whatever it gave before", async () => {
    const headers = { "x-error-code": "GatedRepo" };
    const server = await serve((request, response) => {
      if (request.url?.endsWith("/config.json")) return sendFile(file)(request, response);
      response.writeHead(403, headers).end();
    });
    const { ask } = await fetchFrom(server);
    await ask("config.json");
    await expect(ask("onnx/model.onnx")).rejects.toMatchObject({ code: "MODEL_FORBIDDEN" });
  });

  it("tells the package that the repository lacks a file", async () => {
    const server = await serve((_, response) => {
      response.writeHead(404, { "x-error-code": "EntryNotFound" }).end();
    });
    const { ask } = await fetchFrom(server);
    expect((await ask("generation_config.json")).status).toBe(404);
  });
});
