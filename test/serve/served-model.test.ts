import { text } from "node:stream/consumers";
import Fastify from "fastify";
import { describe, expect, it } from "vitest";
import { SluiceError } from "../../src/foundation/errors.ts";
import { Models } from "../../src/serve/models.ts";
import { transcriptionRoutes } from "../../src/serve/openai/transcriptions.ts";
import { type ServeInput, serveSchema } from "../../src/serve/options.ts";
import { ServedModel } from "../../src/serve/served-model.ts";
import { Workers } from "../../src/serve/workers.ts";
import { engineContext } from "../engines/engine-context.ts";
import { type ScriptedEngine, scriptedEngine } from "../run/scripted-engine.ts";

const caller = { name: "", weight: 1, priority: "online" as const, scopes: [] };
const died = new SluiceError("ENGINE_DIED", "it was killed");

/** The model `m` with this engine; it sends each request once. */
async function served(
  engine: ScriptedEngine,
  model: NonNullable<ServeInput["models"]>[string] = "fake",
) {
  const { models, limits } = serveSchema.parse({ models: { m: model }, limits: { maxTries: 1 } });
  const context = engineContext();
  const workers = new Workers(async () => ({ engine, gpus: [] }), context.clock);
  await workers.scale(1);
  const observer = { admitted() {}, answered() {}, failed() {}, batchFormed() {} };
  return new ServedModel("m", workers, models.m!, { limits, observer }, context);
}

describe("a request that ends its model", () => {
  it("is known by the content of its file, and refused after three deaths alone", async () => {
    const models = new Models();
    const model = { engine: "openai" as const, name: "up", baseUrl: "http://127.0.0.1:9" };
    models.add(
      await served(
        scriptedEngine(4, () => died),
        model,
      ),
    );
    const server = Fastify();
    server.setErrorHandler((error, _request, reply) => {
      void reply.send({ code: (error as unknown as SluiceError).code });
    });
    server.addHook("onRequest", async (request) => {
      Object.assign(request, { caller, gone: new AbortController().signal });
    });
    const { limits } = serveSchema.parse({ models: {} });
    transcriptionRoutes(server, { models, limits, clock: engineContext().clock });
    const upload = async (sound: string, language?: string) => {
      const form = new FormData();
      form.append("model", "m");
      if (language !== undefined) form.append("language", language);
      form.append("file", new Blob([sound]), "sound.wav");
      const { headers, body } = new Request("http://x", { method: "POST", body: form });
      const reply = await server.inject({
        ...{ method: "POST", url: "/v1/audio/transcriptions" },
        ...{ headers: Object.fromEntries(headers), payload: Buffer.from(await text(body!)) },
      });
      return reply.json().code;
    };
    for (let tries = 0; tries < 3; tries++) expect(await upload("bad")).toBe("ENGINE_DIED");
    expect(await upload("bad")).toBe("ROW_KILLS_ENGINE");
    expect([await upload("other"), await upload("bad", "de")]).toEqual([
      "ENGINE_DIED",
      "ENGINE_DIED",
    ]);
  });
});
