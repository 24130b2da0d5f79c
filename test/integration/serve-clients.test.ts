import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import OpenAI from "openai";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { installed } from "../../scripts/installing.ts";
import { findOpenaiPython } from "../../scripts/openai-python.ts";
import { lazily } from "../../src/foundation/lazily.ts";
import { startFakeServer } from "../../src/testing/fake-server.ts";
import { serverFolder, serverHere } from "../serve/server-here.ts";
import { serveFolder, startServe, untilRequests } from "./served.ts";
import { begun, isOver, chat as line, until } from "./served-batches.ts";

const ends: (() => void)[] = [];
const atEnd = (end: () => void) => void ends.unshift(end);
afterAll(() => {
  for (const end of ends) end();
});

/** A server with a model that writes, and one of another server. */
const started = lazily(async () => {
  const behind = await startFakeServer({
    behave({ path, body }) {
      if (path.includes("/audio/")) return undefined;
      const call = { name: "river", arguments: '{"of":"Paris"}' };
      const toolCalls = [{ id: "call_1", type: "function", function: call }];
      return { kind: "answer", cachedTokens: 2, ...(body.includes('"tools"') && { toolCalls }) };
    },
  });
  atEnd(() => void behind.close());
  const models = {
    m: { engine: "fake" },
    v: { engine: "openai", name: "up", baseUrl: behind.baseUrl },
  };
  return await startServe(serveFolder(atEnd), { models }, {}, { atEnd });
});

const asked = {
  model: "m",
  messages: [{ role: "user" as const, content: "Tell me of rivers" }],
  seed: 7,
};
const inputs = ["a cat", "income tax"];

describe("OpenAI's client for JavaScript", () => {
  it("gets as many answers as it asks for, each with its log probabilities", async () => {
    const { baseUrl } = await started();
    const { chat, completions } = new OpenAI({ baseURL: baseUrl, apiKey: "none" });
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
    const { chat } = new OpenAI({ baseURL: baseUrl, apiKey: "none" });
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
    const { embeddings } = new OpenAI({ baseURL: baseUrl, apiKey: "none" });
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
import asyncio, json, sys
from openai import APIStatusError, AsyncOpenAI, OpenAI
from pydantic import BaseModel
class Place(BaseModel):
    city: str
    river: str
client = OpenAI(base_url=sys.argv[1], api_key="none")
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
written = client.completions.create(model="m", prompt="Rivers", seed=1).choices[0].text
streamed = client.completions.create(model="m", prompt="Rivers", seed=1, stream=True)
tool = {"type": "function", "function": {"name": "river", "parameters": {"type": "object"}}}
called = client.chat.completions.create(**{**asked, "model": "v"}, tools=[tool]).choices[0]
sound = ("one.wav", b"one sound")
file = client.files.create(file=("kept.txt", b"kept"), purpose="user_data")
async def asynchronously():
    async with AsyncOpenAI(base_url=sys.argv[1], api_key="none") as client:
        answer = await client.chat.completions.create(**asked)
        stream = await client.chat.completions.create(**asked, stream=True)
        pieces = [choice.delta.content or "" async for chunk in stream for choice in chunk.choices]
        return {"".join(pieces), answer.choices[0].message.content}
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
    "streamed": "".join(chunk.choices[0].text for chunk in streamed) == written,
    "called": [called.finish_reason, called.message.tool_calls[0].function.arguments],
    "heard": client.audio.transcriptions.create(model="v", file=sound).text,
    "translated": client.audio.translations.create(model="v", file=sound).text,
    "kept": client.files.retrieve(file.id).filename,
    "asynchronously": asyncio.run(asynchronously()) == {whole.choices[0].message.content},
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
    ...{ many: [2, 2], place: ["city", "river"], texts: 2, vectors: true, streamed: true },
    ...{ called: ["tool_calls", '{"of":"Paris"}'], kept: "kept.txt", asynchronously: true },
    ...{ heard: "heard one sound", translated: "heard one sound" },
    refused: [
      ["NotFoundError", 404, "model_not_found", "model"],
      ["BadRequestError", 400, "invalid_value", "temperature"],
    ],
  });
});

const retrying = `
import json, sys
from openai import APIStatusError, OpenAI
client = OpenAI(base_url=sys.argv[1], api_key="none")
asked = json.loads(sys.argv[2])
said = client.chat.completions.create(**{**asked, "model": "gated"}).choices[0].message.content
try:
    client.chat.completions.create(**{**asked, "model": "refused"})
except APIStatusError as error:
    print(json.dumps([said, error.status_code, error.response.headers["x-should-retry"]]))
`;

it("the clients try again behind a full queue, and not what is in vain", async () => {
  const folder = serverFolder();
  const [module, go] = [join(folder, "gated.mjs"), join(folder, "go")];
  writeFileSync(
    module,
    `import { existsSync } from "node:fs";
    export async function predict() {
      while (!existsSync(${JSON.stringify(go)})) await new Promise((go) => setTimeout(go, 20));
      return ["said"];
    }`,
  );
  const behind = await startFakeServer({
    behave: ({ path }) => (path.includes("/chat/") ? { kind: "status", status: 401 } : undefined),
  });
  onTestFinished(() => behind.close());
  const statuses: number[] = [];
  const { addresses } = await serverHere(
    {
      models: {
        gated: { model: { engine: "predictor", module, maxBatchRows: 1 }, maxQueueSize: 1 },
        refused: { engine: "openai", name: "up", baseUrl: behind.baseUrl },
      },
    },
    { logAccess: ({ status }) => void statuses.push(status) },
  );
  const client = new OpenAI({ baseURL: `${addresses.inference}/v1`, apiKey: "none" });
  const create = (model: string) => client.chat.completions.create({ ...asked, model });
  const before = [create("gated"), create("gated")];
  await untilRequests({ addresses }, "gated", { inFlight: 1, waiting: 1 });
  const found = findOpenaiPython();
  const parameters = ["-c", retrying, client.baseURL, JSON.stringify(asked)];
  const other = "missing" in found ? undefined : promisify(execFile)(found.python, parameters);
  const refusals = (status: number) => statuses.filter((each) => each === status).length;
  // A client waits for two seconds in all: the one that starts slowly comes first.
  if (other) await expect.poll(() => refusals(429)).toBeGreaterThan(0);
  const earlier = refusals(429);
  const own = create("gated");
  await expect.poll(() => refusals(429)).toBeGreaterThan(earlier);
  writeFileSync(go, "");
  const answers = await Promise.all([...before, own]);
  expect(answers.map(({ choices }) => choices[0]!.message.content)).toEqual(
    Array.from({ length: 3 }, () => "said"),
  );
  await expect(create("refused")).rejects.toMatchObject({ status: 502 });
  if (other) expect(JSON.parse((await other).stdout)).toEqual(["said", 502, "false"]);
  expect(refusals(502)).toBe(other ? 2 : 1);
});
