import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { startFakeServer } from "../../../src/testing/fake-server.ts";
import { sent, serverFolder, serverHere } from "../server-here.ts";

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

describe("a request", () => {
  it("without its type of content hears which one to name", async () => {
    const { addresses } = await serverHere({ models: { m: "fake" } });
    const body = JSON.stringify({ model: "m", messages });
    // As `curl -d` sends it.
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const reply = await fetch(`${addresses.inference}/v1/chat/completions`, {
      ...{ method: "POST", headers, body },
    });
    expect([reply.status, await reply.json()]).toMatchObject([
      400,
      { error: { message: expect.stringContaining("content-type: application/json") } },
    ]);
  });

  it("whose pattern takes for ever is refused, and not tried again", async () => {
    const folder = serverFolder();
    const module = join(folder, "echo.mjs");
    const echo = "({ messages }) => messages.at(-1).content";
    writeFileSync(module, `export const predict = (batch) => batch.map(${echo});`);
    const { addresses } = await serverHere({ models: { m: { engine: "predictor", module } } });
    const properties = { a: { type: "string", pattern: "^(a|a)+$" } };
    const schema = { type: "object", properties, required: ["a"] };
    const said = JSON.stringify({ a: `${"a".repeat(60)}!` });
    const { status, body } = await sent(`${addresses.inference}/v1/chat/completions`, {
      ...{ model: "m", messages: [{ role: "user", content: said }] },
      response_format: { type: "json_schema", json_schema: { name: "x", schema } },
    });
    expect([status, body]).toMatchObject([
      400,
      { error: { type: "invalid_request_error", message: expect.stringContaining("^(a|a)+$") } },
    ]);
  });
});
