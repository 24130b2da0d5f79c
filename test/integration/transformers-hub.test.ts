import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { locateEnginePackage } from "../../src/engines/packages/packages.ts";
import { isModelHere, openTransformersFrom } from "../../src/engines/transformers/engine.ts";
import { engineContext } from "./llama-files.ts";
import { missingTransformers, rowRequest, toyFolder, toyOptions } from "./transformers-files.ts";

const missing = await missingTransformers();
const prefix = "/owner/name/resolve/main/";
const pinned = "/owner/name/resolve/v1/";
const fileUrl = /^\/owner\/(\w+)\/resolve\/(?:main|v1)\/(.+)$/;

/** The repositories of `owner`: each lacks some files of the toy, and says so by a status. */
const repositories: Record<string, { lacks: RegExp; status: number }> = {
  name: { lacks: /^$/, status: 404 },
  external400: { lacks: /_data$/, status: 400 },
  external403: { lacks: /_data$/, status: 403 },
  external404: { lacks: /_data$/, status: 404 },
  partial: { lacks: /^generation_config/, status: 403 },
  closed: { lacks: /\.onnx$/, status: 403 },
};

const toyFile = (name: string) => readFile(join(toyFolder, "model", name)).catch(() => undefined);

/** The settings of a model whose graphs have their weights in files beside them. */
function withExternalData(config: Buffer): string {
  const own = { use_external_data_format: true };
  return JSON.stringify({ ...JSON.parse(config.toString()), "transformers.js_config": own });
}

describe("a model of the hub", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  let home: string;
  let address: string;
  const asked: string[] = [];
  /** Serves the toy as the hub would, to who has the token. */
  const server = createServer(async ({ url = "", headers }, reply) => {
    asked.push(url);
    if (headers.authorization !== "Bearer secret") return reply.writeHead(401).end();
    const [, repository = "", name = ""] = fileUrl.exec(url) ?? [];
    const { lacks, status } = repositories[repository] ?? { lacks: /./, status: 404 };
    const file = lacks.test(name) ? undefined : await toyFile(name);
    if (file === undefined) return reply.writeHead(status).end();
    const isConfig = name === "config.json" && repository.startsWith("external");
    reply.end(isConfig ? withExternalData(file) : file);
  });

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), "sluice-hub-"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    server.close();
    await rm(home, { recursive: true });
  });

  const open = async (environment: Record<string, string>, name = "owner/name") => {
    const { entry } = await locateEnginePackage("transformers", engineContext, { install: false });
    return openTransformersFrom(toyOptions({ name }), entry, {
      ...engineContext,
      homeDirectory: home,
      environment: { ...engineContext.environment, HF_TOKEN: undefined, ...environment },
    });
  };
  const text = async (environment: Record<string, string>, name?: string) => {
    const engine = await open(environment, name);
    try {
      const never = new AbortController().signal;
      const { answers } = await engine.infer(rowRequest(0, { text: "house dog" }), never);
      expect(JSON.stringify(engine.choices)).not.toContain("secret");
      return answers[0]!.text;
    } finally {
      await engine.close();
    }
  };
  const refusal = (environment: Record<string, string>, name?: string) =>
    open(environment, name).then(
      () => expect.fail("it opened"),
      (error: { code: string }) => error.code,
    );

  it("is refused by name where it cannot be had", async () => {
    expect(await refusal({ HF_HUB_OFFLINE: "1" })).toBe("MODEL_MISSING");
    expect(await refusal({ HF_HUB_OFFLINE: "True" })).toBe("MODEL_MISSING");
    expect(await refusal({ HF_ENDPOINT: "http://127.0.0.1:9" })).toBe("MODEL_DOWNLOAD_FAILED");
    expect(await refusal({ HF_ENDPOINT: address })).toBe("MODEL_FORBIDDEN");
    const token = { HF_ENDPOINT: address, HF_TOKEN: "secret" };
    expect(await refusal(token, "owner/other")).toBe("MODEL_UNKNOWN");
  });

  it.each([
    [400, "MODEL_DOWNLOAD_FAILED"],
    [403, "MODEL_FORBIDDEN"],
    [404, "MODEL_UNKNOWN"],
  ])("is refused by name if its external weights are %i", async (status, code) => {
    const token = { HF_ENDPOINT: address, HF_TOKEN: "secret" };
    expect(await refusal(token, `owner/external${status}`)).toBe(code);
  });

  it("may lack an optional file that its mirror refuses", async () => {
    const token = { HF_ENDPOINT: address, HF_TOKEN: "secret" };
    await (await open(token, "owner/partial")).close();
    expect(await refusal(token, "owner/closed")).toBe("MODEL_FORBIDDEN");
  });

  it("is fetched in a revision of its own, and used without the hub from then on", async () => {
    const online = { HF_ENDPOINT: address, HF_TOKEN: "secret" };
    expect(await text(online, "hf:owner/name@v1")).toBe("fesuoh fgod");
    expect(asked).toContain(`${pinned}onnx/decoder_model_merged.onnx`);
    expect(await text({ HF_HUB_OFFLINE: "1" }, "owner/name@v1")).toBe("fesuoh fgod");
  });

  it("is fetched once, with the token, and used without the hub from then on", async () => {
    expect(await text({ HF_ENDPOINT: address, HF_TOKEN: "secret" })).toBe("fesuoh fgod");
    expect(asked).toContain(`${prefix}onnx/decoder_model_merged.onnx`);
    asked.length = 0;
    expect(await text({ HF_ENDPOINT: address, HF_TOKEN: "secret" })).toBe("fesuoh fgod");
    expect(await text({ HF_HUB_OFFLINE: "1" })).toBe("fesuoh fgod");
    expect(asked).toEqual([]);
  });

  it("is not here if it was deleted by hand and cannot be fetched again", async () => {
    const isHere = () =>
      isModelHere(toyOptions({ name: "owner/name" }), { ...engineContext, homeDirectory: home });
    expect(await isHere()).toBe(true);
    await rm(join(home, "models/onnx/owner"), { recursive: true });
    expect(await refusal({ HF_ENDPOINT: "http://127.0.0.1:9" })).toBe("MODEL_DOWNLOAD_FAILED");
    expect(await isHere()).toBe(false);
  });
});
