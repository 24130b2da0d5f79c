import { describe, expect, it } from "vitest";
import { RequestWriter } from "../../../src/engines/openai/request-body.ts";
import { chatRequest } from "../engine-context.ts";

const bodyOf = (request: ReturnType<typeof chatRequest>, isOpenaiItself = false) =>
  JSON.parse(new RequestWriter('a "model"', isOpenaiItself).write(request));

const unusual = {
  topK: 40,
  minP: 0.05,
  repetitionPenalty: 1.1,
  presencePenalty: 0.5,
  frequencyPenalty: -0.5,
  stop: ["\n", "END"],
};

describe("RequestWriter", () => {
  it("sends every value, and leaves out what is neutral", () => {
    expect(bodyOf(chatRequest(1))).toEqual({
      model: 'a "model"',
      messages: [{ role: "user", content: "What is said of 1?" }],
      max_tokens: 20,
      temperature: 0,
      top_p: 1,
      seed: 3,
    });
  });

  it("shows an image with the first words of the user", () => {
    const request = chatRequest(1);
    const messages = [
      { role: "system" as const, content: "Be brief." },
      { role: "user" as const, content: "What is on it?" },
      { role: "assistant" as const, content: "no JSON" },
      { role: "user" as const, content: "Answer in JSON." },
    ];
    const body = new RequestWriter("m", false).write({ ...request, messages }, "data:x");
    const [system, user, ...rest] = messages;
    const image = { type: "image_url", image_url: { url: "data:x" } };
    expect(JSON.parse(body).messages).toEqual([
      system,
      { role: "user", content: [image, { type: "text", text: user!.content }] },
      ...rest,
    ]);
  });

  it("sends parts, tools and their calls as servers take them", () => {
    const call = {
      id: "c1",
      type: "function",
      function: { name: "add", arguments: "{}" },
    } as const;
    const audio = { data: "UklG", format: "wav" } as const;
    const tool = { type: "function", function: { name: "add" } };
    const body = bodyOf({
      ...chatRequest(1),
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "image", url: "data:image/png;base64,AA==", detail: "low" },
            { type: "audio", ...audio },
          ],
        },
        { role: "assistant", content: "", toolCalls: [call] },
        { role: "tool", content: "5", toolCallId: "c1" },
      ],
      tools: [tool],
      toolChoice: "required",
      parallelToolCalls: false,
    });
    expect(body).toMatchObject({
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "image_url", image_url: { url: "data:image/png;base64,AA==", detail: "low" } },
            { type: "input_audio", input_audio: audio },
          ],
        },
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", content: "5", tool_call_id: "c1" },
      ],
      tools: [tool],
      tool_choice: "required",
      parallel_tool_calls: false,
    });
  });

  it("sends what is set", () => {
    expect(bodyOf(chatRequest(1, unusual))).toMatchObject({
      top_k: 40,
      min_p: 0.05,
      repetition_penalty: 1.1,
      presence_penalty: 0.5,
      frequency_penalty: -0.5,
      stop: ["\n", "END"],
    });
  });

  it("sends a default that somebody wrote, where the server knows it", () => {
    const others = ["topK", "minP", "presencePenalty", "numReturnSequences", "ignoreEos", "stop"];
    const request = chatRequest(1, { explicit: ["maxNewTokens", "seed", ...others] });
    const written = { top_k: 0, min_p: 0, presence_penalty: 0, n: 1, ignore_eos: false };
    expect(bodyOf(request)).toEqual({ ...bodyOf(chatRequest(1)), ...written });
    const { n, presence_penalty } = written;
    const plain = bodyOf(chatRequest(1), true);
    expect(bodyOf(request, true)).toEqual({ ...plain, n, presence_penalty });
  });

  it("leaves a seed and a limit that nobody wrote to the server", () => {
    const asked = chatRequest(1, { temperature: 1, explicit: ["temperature"] });
    const { messages: _, ...completion } = asked;
    for (const body of [bodyOf(asked), bodyOf({ ...completion, prompt: "x" })]) {
      expect(Object.keys(body)).not.toContain("seed");
      expect(Object.keys(body)).not.toContain("max_tokens");
    }
    expect(bodyOf(asked, true)).not.toHaveProperty("max_completion_tokens");
  });

  it("asks for several answers and for log-probabilities in the form of the endpoint", () => {
    const changes = { numReturnSequences: 3, logprobs: 2, ignoreEos: true };
    const chat = chatRequest(1, changes);
    expect(bodyOf(chat)).toMatchObject({ n: 3, logprobs: true, top_logprobs: 2, ignore_eos: true });
    const { messages: _, ...request } = chat;
    const completion = bodyOf({ ...request, prompt: "x" });
    expect(completion).toMatchObject({ n: 3, logprobs: 2 });
    expect(completion).not.toHaveProperty("top_logprobs");
    expect(bodyOf(chat, true)).not.toHaveProperty("ignore_eos");
  });

  it("sends a bare prompt as it is", () => {
    const { messages: _, ...request } = chatRequest(1);
    const body = bodyOf({ ...request, prompt: 'Once "upon"\n' });
    expect(body).toMatchObject({ prompt: 'Once "upon"\n', max_tokens: 20 });
    expect(body).not.toHaveProperty("messages");
  });

  it("keeps to what api.openai.com documents", () => {
    const body = bodyOf(chatRequest(1, unusual), true);
    expect(Object.keys(body).sort()).toEqual([
      "frequency_penalty",
      "max_completion_tokens",
      "messages",
      "model",
      "presence_penalty",
      "seed",
      "stop",
      "temperature",
      "top_p",
    ]);
  });

  it("notices new parameters", () => {
    const writer = new RequestWriter("m", false);
    const seeds = [1, 2, 1].map((seed) => JSON.parse(writer.write(chatRequest(1, { seed }))).seed);
    expect(seeds).toEqual([1, 2, 1]);
  });
});
