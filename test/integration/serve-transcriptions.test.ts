import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import OpenAI, { toFile } from "openai";
import { expect, it, onTestFinished } from "vitest";
import { type ReceivedRequest, startFakeServer } from "../../src/testing/fake-server.ts";
import { serveFolder, startServe } from "./served.ts";

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
    { model: "m", file, response_format: "srt" as const },
    { model: "m", file, language: "de" },
    { model: "m", file, temperature: 2 },
  ].map((body) => transcriptions.create(body).catch((error: unknown) => error));
  expect(await Promise.all(refused)).toMatchObject([
    { status: 400, message: expect.stringContaining("f transcribes nothing") },
    { status: 404, code: "model_not_found" },
    { status: 413, param: "file" },
    { status: 400, param: "response_format" },
    { status: 400, param: "language" },
    { status: 400, param: "temperature" },
  ]);
  expect(forms).toHaveLength(2);
  expect(readdirSync(temporary).filter((name) => name.startsWith("sluice-audio-"))).toEqual([]);
});
