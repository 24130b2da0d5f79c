import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import OpenAI, { toFile } from "openai";
import { expect, it, onTestFinished } from "vitest";
import { type ReceivedRequest, startFakeServer } from "../../src/testing/fake-server.ts";
import { wavBytes } from "../engines/transformers/wav-bytes.ts";
import golden from "../golden/tiny-models/golden.json" with { type: "json" };
import { engineContext } from "./llama-files.ts";
import { serveFolder, startServe } from "./served.ts";
import { missingTransformers } from "./transformers-files.ts";

it("sluice serve transcribes uploads, and keeps none of them", async () => {
  const forms: string[] = [];
  const behave = ({ path, body }: ReceivedRequest) => {
    if (path.endsWith("/transcriptions")) forms.push(body);
    return undefined;
  };
  const upstream = await startFakeServer({ behave });
  onTestFinished(() => upstream.close());
  const folder = serveFolder();
  const temporary = join(folder, "tmp");
  mkdirSync(temporary);
  const { baseUrl } = upstream;
  const models = {
    m: { engine: "openai" as const, name: "up", baseUrl },
    f: { engine: "fake" as const },
  };
  const limits = { maxFileBytes: 100 };
  const server = await startServe(folder, { models, limits }, { TMPDIR: temporary });
  const client = new OpenAI({ baseURL: server.baseUrl, apiKey: "none", maxRetries: 0 });
  const { transcriptions } = client.audio;
  const file = await toFile(Buffer.from("one sound"), "../one.wav");
  expect(await transcriptions.create({ model: "m", file })).toEqual({ text: "heard one sound" });
  expect(forms[0]).toContain('filename="audio.wav"');
  expect(forms[0]).not.toContain('name="temperature"');
  const options = { response_format: "text" as const, temperature: 0.5 };
  expect(await transcriptions.create({ model: "m", file, ...options })).toBe("heard one sound");
  expect(forms[1]).toMatch(/name="temperature"\r\n\r\n0\.5\r\n/);

  const large = await toFile(Buffer.alloc(101), "large.wav");
  const refused = [
    { model: "f", file },
    { model: "none", file },
    { model: "m", file: large },
    { model: "m", file, response_format: "diarized_json" as const },
    { model: "m", file, timestamp_granularities: ["word" as const] },
    { model: "m", file, prompt: "x".repeat(5000) },
    { model: "m", file, include: ["logprobs" as const] },
    { model: "m", file, temperature: 2 },
  ].map((body) => transcriptions.create(body).catch((error: unknown) => error));
  expect(await Promise.all(refused)).toMatchObject([
    { status: 400, message: expect.stringContaining("f transcribes nothing") },
    { status: 404, code: "model_not_found" },
    { status: 413, param: "file" },
    { status: 400, param: "response_format" },
    { status: 400, param: "timestamp_granularities[]" },
    { status: 413, param: "prompt" },
    { status: 400, param: "include[]" },
    { status: 400, param: "temperature" },
  ]);
  expect(forms).toHaveLength(2);
  expect(readdirSync(temporary).filter((name) => name.startsWith("sluice-audio-"))).toEqual([]);
});

it("sluice serve passes on how transcripts and translations are made, with times", async () => {
  const received: { path: string; form: string }[] = [];
  const upstream = await startFakeServer({
    behave: ({ path, body }) => {
      if (path.includes("/audio/")) received.push({ path, form: body });
      const lacksTranslations = body.includes("no translations");
      return lacksTranslations ? { kind: "status", status: 404 } : undefined;
    },
  });
  onTestFinished(() => upstream.close());
  const { baseUrl } = upstream;
  const models = { m: { engine: "openai" as const, name: "up", baseUrl } };
  const server = await startServe(serveFolder(), { models });
  const client = new OpenAI({ baseURL: server.baseUrl, apiKey: "none", maxRetries: 0 });
  const { transcriptions, translations } = client.audio;
  const file = await toFile(Buffer.from("one sound"), "one.wav");
  const asked = { model: "m", file };
  const timed = await transcriptions.create({
    ...{ ...asked, language: "de", prompt: "Sluice, Zoë", response_format: "verbose_json" },
    timestamp_granularities: ["word", "segment"],
  });
  const segment = { id: 0, start: 0, end: 1.5, text: " heard one sound" };
  expect(timed).toMatchObject({
    ...{ task: "transcribe", language: "english", duration: 1.5, text: "heard one sound" },
    segments: [segment],
    words: [{ word: "heard", start: 0, end: 0.5 }, { word: "one" }, { word: "sound", end: 1.5 }],
  });
  const fieldsOf = (at: number) =>
    [...received[at]!.form.matchAll(/name="([^"]+)"\r\n\r\n(.*)\r\n/g)].map(([, ...pair]) => pair);
  expect(fieldsOf(0)).toEqual([
    ["model", "up"],
    ["response_format", "verbose_json"],
    ["language", "de"],
    ["prompt", "Sluice, Zoë"],
    ["timestamp_granularities[]", "word"],
    ["timestamp_granularities[]", "segment"],
  ]);
  expect(await transcriptions.create({ ...asked, response_format: "srt" })).toBe(
    "1\n00:00:00,000 --> 00:00:01,500\nheard one sound\n\n",
  );
  expect(await transcriptions.create({ ...asked, response_format: "vtt" })).toBe(
    "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nheard one sound\n\n",
  );

  const english = await translations.create({ ...asked, prompt: "names", temperature: 0 });
  expect(english).toEqual({ text: "heard one sound" });
  expect(received.at(-1)!.path).toBe("/v1/audio/translations");
  expect(fieldsOf(received.length - 1)).toContainEqual(["temperature", "0"]);
  const whole = await translations.create({ ...asked, response_format: "verbose_json" });
  expect(whole).toMatchObject({ task: "translate", segments: [segment] });
  const lacking = translations.create({ ...asked, prompt: "no translations" });
  await expect(lacking).rejects.toMatchObject({ status: 404, code: "invalid_request" });
  // The server is still there for all else.
  expect(await transcriptions.create(asked)).toEqual({ text: "heard one sound" });
});

it("sluice serve transcribes by Whisper on this machine, in the language of the request", async ({
  skip,
}) => {
  const missing = await missingTransformers();
  if (missing) skip(missing);
  const name = join(import.meta.dirname, "../golden/tiny-models/speech");
  const task = "automatic-speech-recognition" as const;
  const models = { m: { engine: "transformers" as const, task, name, threads: 1 } };
  const home = { SLUICE_HOME: engineContext.homeDirectory };
  const server = await startServe(serveFolder(), { models }, home);
  const client = new OpenAI({ baseURL: server.baseUrl, apiKey: "none", maxRetries: 0 });
  const { transcriptions, translations } = client.audio;
  const tone = Array.from({ length: 16_000 }, (_, at) => {
    return 0.5 * Math.sin((2 * Math.PI * 440 * at) / 16_000);
  });
  const file = await toFile(wavBytes([tone], 16_000, { code: 1, bits: 16 }), "tone.wav");
  const french = await transcriptions.create({ model: "m", file, language: "fr", temperature: 0 });
  const text = golden.speech.heard["440"];
  expect(french).toEqual({ text });
  const translated = await translations.create({ model: "m", file });
  expect(translated.text).not.toBe(text);
  const noSound = await toFile(Buffer.from("RIFF"), "none.wav");
  const refused = [
    { model: "m", file, language: "de" },
    { model: "m", file, prompt: "Sluice" },
    { model: "m", file, temperature: 0.5 },
    { model: "m", file: noSound },
  ].map((body) => transcriptions.create(body).catch((error: unknown) => error));
  expect(await Promise.all(refused)).toMatchObject([
    { status: 400, type: "invalid_request_error", param: "language" },
    { status: 400, type: "invalid_request_error", param: "prompt" },
    { status: 400, type: "invalid_request_error", param: "temperature" },
    { status: 400, type: "invalid_request_error" },
  ]);
});
