import { execFile } from "node:child_process";
import { promisify } from "node:util";
import OpenAI from "openai";
import { describe, expect, it, onTestFinished } from "vitest";
import { installed } from "../../scripts/installing.ts";
import { findOpenaiPython } from "../../scripts/openai-python.ts";
import { startFakeServer } from "../../src/testing/fake-server.ts";
import { serveFolder, startServe } from "./served.ts";
import { begun, isOver, chat as line, until } from "./served-batches.ts";

/** A server with a model that writes, and one of another server. */
async function started() {
  const behind = await startFakeServer({ behave: () => ({ kind: "answer", cachedTokens: 2 }) });
  onTestFinished(() => behind.close());
  return await startServe(serveFolder(), {
    models: {
      m: { engine: "fake" },
      v: { engine: "openai", name: "up", baseUrl: behind.baseUrl },
    },
  });
}

const asked = {
  model: "m",
  messages: [{ role: "user" as const, content: "Tell me of rivers" }],
  seed: 7,
};
const inputs = ["a cat", "income tax"];

describe("OpenAI's client for JavaScript", () => {
  it("gets as many answers as it asks for, each with its log probabilities", async () => {
    const { baseUrl } = await started();
    const { chat, completions } = new OpenAI({ baseURL: baseUrl, apiKey: "none", maxRetries: 0 });
    const many = { ...asked, n: 3, logprobs: true, top_logprobs: 2, max_tokens: 4 };
    const whole = await chat.completions.create(many);
    expect(whole.choices.map(({ index }) => index)).toEqual([0, 1, 2]);
    expect(new Set(whole.choices.map(({ message }) => message.content)).size).toBe(3);
    for (const { message, logprobs, finish_reason } of whole.choices) {
      const tokens = logprobs!.content!;
      expect(tokens.map(({ token }) => token).join("")).toBe(message.content);
      for (const { bytes, logprob, top_logprobs: likeliest } of tokens) {
        expect(logprob).toBeLessThanOrEqual(0);
        expect(bytes!.length).toBeGreaterThan(0);
        expect(likeliest).toHaveLength(2);
      }
      expect(["stop", "length"]).toContain(finish_reason);
    }
    const streamed = ["", "", ""];
    const ends: unknown[] = [];
    for await (const { choices } of await chat.completions.create({ ...many, stream: true })) {
      for (const { index, delta, finish_reason, logprobs } of choices) {
        streamed[index] += delta.content ?? "";
        if (finish_reason) ends[index] = [finish_reason, logprobs];
      }
    }
    expect(streamed).toEqual(whole.choices.map(({ message }) => message.content));
    expect(ends).toEqual(whole.choices.map((each) => [each.finish_reason, each.logprobs]));
    const text = await completions.create({ model: "m", prompt: "Rivers", logprobs: 2, seed: 1 });
    const { tokens, text_offset: offsets } = text.choices[0]!.logprobs!;
    expect(tokens!.join("")).toBe(text.choices[0]!.text);
    expect(offsets![0]).toBe(0);
  });

  it("gets the same answer to the same seed, and one that ends before a text", async () => {
    const { baseUrl } = await started();
    const { chat } = new OpenAI({ baseURL: baseUrl, apiKey: "none", maxRetries: 0 });
    const say = async (more: object = {}) => {
      const { choices } = await chat.completions.create({ ...asked, ...more });
      return choices[0]!.message.content!;
    };
    const [once, again, other] = [await say(), await say(), await say({ seed: 8 })];
    expect(again).toBe(once);
    expect(other).not.toBe(once);
    const word = once.split(" ")[2]!;
    const cut = await say({ stop: [word] });
    expect(cut).toBe(once.slice(0, once.indexOf(word)));
  });

  it("gets vectors in base64, as it asks for, and in numbers", async () => {
    const { baseUrl } = await started();
    const { embeddings } = new OpenAI({ baseURL: baseUrl, apiKey: "none", maxRetries: 0 });
    const byDefault = await embeddings.create({ model: "v", input: inputs });
    const inNumbers = await embeddings.create({
      ...{ model: "v", input: inputs, encoding_format: "float" },
    });
    expect(byDefault).toMatchObject({ object: "list", model: "v" });
    expect(byDefault.data.map(({ index }) => index)).toEqual([0, 1]);
    for (const [at, { embedding }] of byDefault.data.entries()) {
      const numbers = inNumbers.data[at]!.embedding;
      expect(embedding).toEqual([...Float32Array.from(numbers)]);
    }
    expect(byDefault.usage).toEqual(inNumbers.usage);
  });

  it("is told how many tokens of a batch came from a cache", async () => {
    const { baseUrl } = await started();
    const client = new OpenAI({ baseURL: baseUrl, apiKey: "none" });
    const lines = ["a", "b", "c"].map((id) => line(id, { model: "v" }));
    const { usage } = await until(client, (await begun(client, lines)).id, isOver);
    expect(usage).toMatchObject({ input_tokens: 6, input_tokens_details: { cached_tokens: 6 } });
  });
});

const python = `
import json, sys
from openai import APIStatusError, OpenAI
from pydantic import BaseModel
class Place(BaseModel):
    city: str
    river: str
client = OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
asked = json.loads(sys.argv[2])
inputs = json.loads(sys.argv[3])
whole = client.chat.completions.create(**asked)
pieces, usage, end = [], None, None
usual = {"stream": True, "stream_options": {"include_usage": True}}
for chunk in client.chat.completions.create(**asked, **usual):
    usage = chunk.usage or usage
    for choice in chunk.choices:
        pieces.append(choice.delta.content or "")
        end = choice.finish_reason or end
many = client.chat.completions.create(**asked, n=2, logprobs=True, top_logprobs=2)
place = client.chat.completions.parse(**asked, response_format=Place).choices[0].message.parsed
text = client.completions.create(model="m", prompt="Rivers", n=2)
vectors = client.embeddings.create(model="v", input=inputs)
numbers = client.embeddings.create(model="v", input=inputs, encoding_format="float")
refused = []
for model, more in (("none", {}), ("m", {"temperature": 99})):
    try:
        client.chat.completions.create(**{**asked, "model": model}, **more)
    except APIStatusError as error:
        refused.append([type(error).__name__, error.status_code, error.code, error.param])
print(json.dumps({
    "models": [model.id for model in client.models.list()],
    "model": client.models.retrieve("m").id,
    "same": "".join(pieces) == whole.choices[0].message.content,
    "usage": usage.total_tokens == whole.usage.total_tokens,
    "end": [end, whole.choices[0].finish_reason],
    "many": [len(choice.logprobs.content[0].top_logprobs) for choice in many.choices],
    "place": sorted(place.model_dump()),
    "texts": len(text.choices),
    "vectors": max(abs(one - other) for one, other in zip(
        vectors.data[1].embedding, numbers.data[1].embedding)) < 1e-6,
    "refused": refused,
}))
`;

it("OpenAI's client for Python goes through every call with its defaults", async (context) => {
  await installed("openai-python");
  const found = findOpenaiPython();
  context.skip("missing" in found, "missing" in found ? found.missing : "");
  if ("missing" in found) return;
  const { baseUrl } = await started();
  const parameters = ["-c", python, baseUrl, JSON.stringify(asked), JSON.stringify(inputs)];
  const { stdout } = await promisify(execFile)(found.python, parameters);
  expect(JSON.parse(stdout)).toEqual({
    ...{ models: ["m", "v"], model: "m", same: true, usage: true, end: ["stop", "stop"] },
    ...{ many: [2, 2], place: ["city", "river"], texts: 2, vectors: true },
    refused: [
      ["NotFoundError", 404, "model_not_found", "model"],
      ["BadRequestError", 400, "invalid_value", "temperature"],
    ],
  });
});
