import { describe, expect, it, onTestFinished } from "vitest";
import { startFakeServer } from "../../../src/testing/fake-server.ts";
import { sent, serverHere } from "../server-here.ts";

const messages = [{ role: "user", content: "Hi" }];

describe("the options of a call", () => {
  it("are refused by name where they belong to another call, before the model works", async () => {
    const behind = await startFakeServer();
    onTestFinished(() => behind.close());
    const up = { engine: "openai", name: "up", baseUrl: behind.baseUrl };
    const { addresses } = await serverHere({ models: { m: up } });
    const refused = async (path: string, body: object) => {
      const { status, body: answer } = await sent(`${addresses.inference}/v1/${path}`, {
        ...{ model: "m", ...body },
      });
      const { param, code } = (answer as { error: { param: string; code: string } }).error;
      return [status, param, code];
    };
    const asked = behind.received;
    expect(await refused("chat/completions", { messages, encoding_format: "base64" })).toEqual([
      ...[400, "encoding_format", "unsupported_parameter"],
    ]);
    expect(await refused("embeddings", { input: "Hi", stream: true })).toEqual([
      ...[400, "stream", "unsupported_parameter"],
    ]);
    expect(await refused("chat/completions", { messages, stream_options: "usage" })).toEqual([
      ...[400, "stream_options", "invalid_value"],
    ]);
    expect(behind.received).toBe(asked);
    const vectors = async (more: object) => {
      const { body } = await sent(`${addresses.inference}/v1/embeddings`, {
        ...{ model: "m", input: "Hi", ...more },
      });
      return (body as { data: { embedding: unknown }[] }).data[0]!.embedding;
    };
    const numbers = (await vectors({ stream: false })) as number[];
    const bytes = Buffer.from((await vectors({ encoding_format: "base64" })) as string, "base64");
    expect(bytes.length).toBe(4 * numbers.length);
    expect(bytes.readFloatLE(0)).toBeCloseTo(numbers[0]!, 6);
  });
});
