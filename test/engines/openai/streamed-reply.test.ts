import { describe, expect, it } from "vitest";
import { readReply } from "../../../src/engines/openai/reply.ts";
import { StreamedReply } from "../../../src/engines/openai/streamed-reply.ts";
import type { AnswerDelta } from "../../../src/foundation/inference.ts";
import type { Json } from "../../../src/foundation/json.ts";
import { rejectionOf } from "../engine-context.ts";

type Form = "chat" | "completion";
const event = (value: Json) => `data: ${JSON.stringify(value)}\n\n`;
const said = (content: string, rest: object = {}) =>
  event({ choices: [{ index: 0, delta: { content }, ...rest }] });
const done = "data: [DONE]\n\n";

/** Feeds a stream in pieces of so many bytes. */
function streamed(text: string, bytesAtOnce = 1_000_000, form: Form = "chat", count = 1) {
  const deltas: AnswerDelta[] = [];
  const reply = new StreamedReply(form, count, (delta) => void deltas.push(delta));
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += bytesAtOnce) {
    reply.add(bytes.subarray(at, at + bytesAtOnce));
  }
  const read = (asked: { numReturnSequences?: number; logprobs?: number } = {}) =>
    readReply(reply.end({}), form, asked, (quoted) => quoted);
  return { reply, deltas, read, said: deltas.map((delta) => delta.text).join("") };
}

const stopped = event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });

describe("StreamedReply", () => {
  it.each([1, 2, 3, 7, 1000])("reads events that come %i bytes at a time", (bytesAtOnce) => {
    const usage = { prompt_tokens: 5, completion_tokens: 2 };
    const text = [
      ": a comment\r\n\r\n",
      event({ choices: [{ index: 0, delta: { role: "assistant", content: "" } }] }),
      said("größer 😀").replaceAll("\n", "\r\n"),
      said(" als"),
      event({ choices: [{ index: 0, delta: {}, finish_reason: "length" }] }),
      event({ choices: [], usage }),
      done,
    ].join("");
    const { said: told, read } = streamed(text, bytesAtOnce);
    expect(told).toBe("größer 😀 als");
    expect(read()).toEqual({
      answers: [{ text: told, finishReason: "length", tokens: 2 }],
      usage: { promptTokens: 5, cachedTokens: 0, completionTokens: 2 },
    });
  });

  it("keeps the answers of several choices apart, and drops those nobody asked for", () => {
    const piece = (index: number, text: string, finish_reason: string | null = null) =>
      event({ choices: [{ index, text, finish_reason }] });
    const text = [piece(1, "b"), piece(0, "a"), piece(2, "c"), piece(1, "B"), piece(0, "A")];
    const ends = [0, 1, 2].map((index) => piece(index, "", "stop"));
    const { deltas, read } = streamed([...text, ...ends, done].join(""), 9, "completion", 2);
    expect(deltas.map((delta) => `${delta.choice}${delta.text}`)).toEqual(["1b", "0a", "1B", "0A"]);
    expect(read({ numReturnSequences: 2 }).answers.map((answer) => answer.text)).toEqual([
      "aA",
      "bB",
    ]);
  });

  it("joins log-probabilities of both forms", () => {
    const entry = (token: string) => ({ token, logprob: -1, top_logprobs: [] });
    const chat = ["a", "b"].map((token) => said(token, { logprobs: { content: [entry(token)] } }));
    const ofChat = streamed([...chat, stopped, done].join("")).read({ logprobs: 1 });
    const completion = ["a", "b"].map((token) =>
      event({
        choices: [{ index: 0, text: token, logprobs: { tokens: [token], token_logprobs: [-1] } }],
      }),
    );
    const end = event({ choices: [{ index: 0, text: "", finish_reason: "stop" }] });
    const all = [...completion, end, done].join("");
    const ofCompletion = streamed(all, 10, "completion").read({ logprobs: 1 });
    const tokens = ["a", "b"].map((token) => ({ token, logprob: -1, alternatives: [] }));
    expect(ofChat.answers[0]!.logprobs).toEqual(tokens);
    expect(ofCompletion.answers[0]!.logprobs).toEqual(tokens);
  });

  it("puts calls of tools together", () => {
    const call = (piece: Json) =>
      event({ choices: [{ index: 0, delta: { tool_calls: [piece] } }] });
    const text = [
      call({ index: 0, id: "c1", type: "function", function: { name: "add", arguments: "" } }),
      call({ index: 0, function: { arguments: '{"a":' } }),
      call({ index: 1, id: "c2", type: "function", function: { name: "now", arguments: "{}" } }),
      call({ index: 0, function: { arguments: "1}" } }),
      event({ choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] }),
      done,
    ].join("");
    expect(streamed(text).read().answers[0]).toMatchObject({
      text: "",
      toolCalls: [
        { id: "c1", type: "function", function: { name: "add", arguments: '{"a":1}' } },
        { id: "c2", type: "function", function: { name: "now", arguments: "{}" } },
      ],
    });
  });

  it("takes an answer of no words, but not one that was only thought about", async () => {
    const empty = event({ choices: [{ index: 0, delta: { role: "assistant", content: null } }] });
    expect(streamed(empty + stopped + done).read().answers[0]!.text).toBe("");
    const thought = event({ choices: [{ index: 0, delta: { reasoning_content: "hm" } }] });
    const read = async () => streamed(thought + stopped + done).read();
    expect(await rejectionOf(read())).toMatchObject({ code: "ANSWER_EMPTY" });
  });

  it.each([
    ["an event", event({ error: { message: "out of memory", code: 503 } }), 503],
    ["a field", 'error: {"message":"out of memory"}\n\n', 500],
  ])("gives an error that comes as %s the status that it would have had", (_, error, status) => {
    const reply = streamed(said("a") + error).reply.end({});
    expect(reply).toMatchObject({ status, text: expect.stringContaining("out of memory") });
  });

  it.each([
    ["ends early", said("a"), "lost"],
    ["is empty", "", "lost"],
    ["is no JSON", "data: {\n\n", "garbled"],
    ["is not UTF-8", Buffer.from([0x64, 0xff, 0xff]), "garbled"],
  ])("is a failure of the transport where it %s", async (_, bytes, kind) => {
    const reply = new StreamedReply("chat", 1, () => {});
    const read = async () => {
      reply.add(Buffer.from(bytes as string));
      reply.end({});
    };
    expect(await rejectionOf(read())).toMatchObject({ name: "TransportError", kind });
  });

  it("needs no word that the stream is over where the answers are", () => {
    expect(streamed(said("a") + stopped).read().answers[0]!.text).toBe("a");
  });
});
