import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { InferenceRequest } from "../../../src/foundation/inference.ts";
import type { Json } from "../../../src/foundation/json.ts";
import { limits } from "../../../src/foundation/limits.ts";
import type { ReceivedRequest } from "../../../src/testing/fake-server.ts";
import { chatRequest, rejectionOf } from "../engine-context.ts";
import { never, openOver, serve } from "./openai-engine.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-sound-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function fileNamed(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

function transcription(file: string, explicit: string[] = []): InferenceRequest {
  const { messages: _, ...request } = chatRequest(0, { explicit, temperature: 0.3 });
  return { ...request, file };
}

describe("transcriptions", () => {
  it("send the file as a form, with the fields of the job", async () => {
    const asked: ReceivedRequest[] = [];
    const server = await serve({ behave: (request) => void asked.push(request) });
    const extraBody = { language: "en", timestamp_granularities: ["word"] };
    const engine = openOver([server], { maxInFlight: 2, extraBody });
    const file = fileNamed('a "b".wav', "RIFF of sound");
    const { answers } = await engine.infer(transcription(file, ["temperature"]), never);
    expect(answers[0]!.text).toBe("heard RIFF of sound");
    const [{ path, headers, body }] = asked as [ReceivedRequest];
    expect(path).toBe("/v1/audio/transcriptions");
    const type = String(headers["content-type"]);
    const form = await new Response(body, { headers: { "content-type": type } }).formData();
    expect(Object.fromEntries([...form].filter(([name]) => name !== "file"))).toEqual({
      ...{ model: "m", language: "en", timestamp_granularities: '["word"]' },
      ...{ response_format: "json", temperature: "0.3" },
    });
    const sent = form.get("file") as File;
    expect([sent.name, await sent.text()]).toEqual(['a "b".wav', "RIFF of sound"]);
  });

  it("count tokens where the server does, and not seconds", async () => {
    const replies: Json[] = [
      { text: "x", usage: { type: "tokens", input_tokens: 14, output_tokens: 3 } },
      { text: "x", usage: { type: "duration", seconds: 9 } },
      { text: "x" },
    ];
    const server = await serve({
      behave: ({ number }) => ({ kind: "json", body: replies[number]! }),
    });
    const engine = openOver([server], { maxInFlight: 1 });
    const found: number[][] = [];
    for (const _ of replies) {
      const { usage } = await engine.infer(transcription(fileNamed("s.wav", "s")), never);
      found.push([usage.promptTokens, usage.completionTokens]);
    }
    expect(found).toEqual([
      [14, 3],
      [0, 0],
      [0, 0],
    ]);
  });

  it("go to another endpoint with the whole file where a connection breaks", async () => {
    const breaking = await serve({ behave: () => ({ kind: "reset", when: "before-reply" }) });
    const whole = await serve();
    const file = fileNamed("long.wav", "sound ".repeat(100_000));
    for (let at = 0; at < 4; at++) {
      const engine = openOver([breaking, whole], { maxInFlight: 1 });
      const { answers } = await engine.infer(transcription(file), never);
      expect(answers[0]!.text).toHaveLength("heard ".length + 600_000);
    }
  });

  it("of a file that is not there, is a folder or too large fail unasked", async () => {
    const server = await serve();
    const engine = openOver([server], { maxInFlight: 1 });
    const large = fileNamed("large.wav", "");
    truncateSync(large, limits.maxTranscribedBytes + 1);
    for (const file of [join(folder, "gone.wav"), folder, large]) {
      const error = await rejectionOf(engine.infer(transcription(file), never));
      expect(error).toMatchObject({ code: "FILE_UNREADABLE", retryable: false, scope: "row" });
      expect(error!.message).toContain(file);
    }
    expect(server.received).toBe(0);
  });

  it("that have no text are malformed", async () => {
    const server = await serve({ behave: () => ({ kind: "json", body: { text: null } }) });
    const engine = openOver([server], { maxInFlight: 1 });
    const error = await rejectionOf(engine.infer(transcription(fileNamed("s.wav", "s")), never));
    expect(error).toMatchObject({ code: "RESPONSE_MALFORMED" });
  });
});
