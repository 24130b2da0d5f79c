import { text } from "node:stream/consumers";
import Fastify from "fastify";
import { describe, expect, it } from "vitest";
import { SluiceError } from "../../src/foundation/errors.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
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
  { logger = silentLogger, failed = (_model: string, _code: string) => {} } = {},
) {
  const { models, limits } = serveSchema.parse({ models: { m: model }, limits: { maxTries: 1 } });
  const context = engineContext({ logger });
  const workers = new Workers(async () => ({ engine, gpus: [] }), context.clock);
  await workers.scale(1);
  const observer = { admitted() {}, answered() {}, failed, batchFormed() {} };
  return new ServedModel("m", workers, models.m!, { limits, observer }, context);
}

it("a model that gets more workers computes what waits", async () => {
  const engine = scriptedEngine(1);
  const model = await served(engine);
  const { signal } = new AbortController();
  const all = ["a", "b", "c"].map((prompt) =>
    model.ask(model.read("/v1/completions", { model: "m", prompt }), { caller, signal }),
  );
  expect(engine.held).toHaveLength(1);
  await model.workers.scale(3);
  await expect.poll(() => engine.held.length).toBe(3);
  engine.answerAll();
  await Promise.all(all);
});

it("the failure of one of many prompts counts once", async () => {
  const seen: string[] = [];
  const engine = scriptedEngine(8);
  const model = await served(engine, "fake", {
    logger: { log: (_level, line) => void seen.push(line) },
    failed: (_model, code) => void seen.push(code),
  });
  const prompt = Array.from({ length: 20 }, (_, at) => `text ${at}`);
  const { signal } = new AbortController();
  const call = { caller, signal };
  const asked = model.ask(model.read("/v1/completions", { model: "m", prompt }), call);
  const failed = expect(asked).rejects.toMatchObject({ code: "SERVER_ERROR" });
  engine.held[3]!.fail(new SluiceError("SERVER_ERROR", "status 500"));
  await failed;
  await expect.poll(() => [model.queue.inFlight, model.queue.waiting()]).toEqual([0, 0]);
  expect(seen).toEqual([expect.stringMatching(/^m: .*status 500/), "SERVER_ERROR"]);
});

it("a client that leaves many prompts counts once", async () => {
  const seen: string[] = [];
  const engine = scriptedEngine(2);
  const model = await served(engine, "fake", { failed: (_model, code) => void seen.push(code) });
  const leave = new AbortController();
  const prompt = Array.from({ length: 20 }, (_, at) => `text ${at}`);
  const call = { caller, signal: leave.signal };
  const asked = model.ask(model.read("/v1/completions", { model: "m", prompt }), call);
  const left = expect(asked).rejects.toMatchObject({ code: "CLIENT_GONE" });
  leave.abort(new SluiceError("CLIENT_GONE"));
  await left;
  await expect.poll(() => [model.queue.inFlight, model.queue.waiting()]).toEqual([0, 0]);
  expect(seen).toEqual(["CLIENT_GONE"]);
});

it("no prompt of a call waits once that is shut, whatever was in work before", async () => {
  const engine = scriptedEngine(1);
  const model = await served(engine);
  const { signal } = new AbortController();
  const shut = new AbortController();
  const asked = (prompt: string | string[]) =>
    model.ask(model.read("/v1/completions", { model: "m", prompt }), {
      ...{ caller, signal, shut: shut.signal },
    });
  const one = asked("in work");
  const many = asked(["a", "b"]);
  engine.answerAll();
  await one;
  // The first of many is in work now, and the second one waits.
  await expect.poll(() => engine.held.length).toBe(1);
  const ended = expect(many).rejects.toMatchObject({ code: "BATCH_CANCELED" });
  shut.abort(new SluiceError("BATCH_CANCELED"));
  await ended;
  expect(model.queue.waiting()).toBe(0);
});

it("a request in work ends though its call is shut", async () => {
  const engine = scriptedEngine(1);
  const model = await served(engine);
  const { signal } = new AbortController();
  const shut = new AbortController();
  const call = { caller, signal, shut: shut.signal };
  const asked = model.ask(model.read("/v1/completions", { model: "m", prompt: "a" }), call);
  shut.abort(new SluiceError("BATCH_CANCELED"));
  engine.answerAll();
  expect(await asked).toHaveLength(1);
});

describe("a request that ends its model", () => {
  it("is told from those that die with it: these did not die alone", async () => {
    const engine = scriptedEngine(4);
    const model = await served(engine);
    const ask = (prompt: string) => {
      const call = { caller, signal: new AbortController().signal };
      const asked = model.ask(model.read("/v1/completions", { model: "m", prompt }), call);
      return asked.then(
        () => "answered",
        (error: SluiceError) => error.code,
      );
    };
    for (const prompt of ["bad 1", "bad 2"]) {
      const both = Promise.all([ask(prompt), ask("good")]);
      for (const { fail } of [...engine.held]) fail(died);
      expect(await both).toEqual(["ENGINE_DIED", "ENGINE_DIED"]);
    }
    // It saw two deaths.
    const last = Promise.all([ask("bad 3"), ask("good")]);
    expect(engine.held.map(({ request }) => request.prompt)).toEqual(["bad 3"]);
    engine.held[0]!.fail(died);
    await expect.poll(() => engine.held.map(({ request }) => request.prompt)).toEqual(["good"]);
    engine.held[0]!.fail(died);
    expect(await last).toEqual(["ENGINE_DIED", "ENGINE_DIED"]);
    // One death alone, of three.
    const again = ask("good");
    expect(engine.held).toHaveLength(1);
    engine.answerAll();
    expect(await again).toBe("answered");
  });

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
