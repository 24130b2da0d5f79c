import { describe, expect, it } from "vitest";
import type { InferenceResponse } from "../../src/foundation/inference.ts";
import { greedyParameters, noUsage } from "../../src/foundation/inference.ts";
import { limits } from "../../src/foundation/limits.ts";
import type { PreparedRow } from "../../src/prompt/prepared-row.ts";
import { promptOptions } from "../../src/prompt/prompt-options.ts";
import { compilePromptSet } from "../../src/prompt/prompt-set.ts";

const generation = {
  ...greedyParameters,
  maxNewTokens: 50,
  seed: 1,
};
const single = (prompt: unknown, more: object = {}) =>
  compilePromptSet({
    generation: { ...generation, ...more },
    prompt: promptOptions.parse(prompt),
  });
const several = (prompts: Record<string, unknown>) =>
  compilePromptSet({
    generation,
    prompts: Object.fromEntries(
      Object.entries(prompts).map(([name, options]) => [name, promptOptions.parse(options)]),
    ),
  });
const response = (...texts: string[]): InferenceResponse => ({
  answers: texts.map((text) => ({ text, finishReason: "stop", tokens: 1 })),
  usage: noUsage,
  seconds: 0,
});

const line = "temperature={temperature}, duration={duration}";
const slots = { temperature: { maxWords: 6 }, duration: { pattern: ".*\\d+ (min|hour).*" } };
const row = {
  title: "Pie",
  directions: ["Heat to 375 degrees F (190 degrees C). Mix well.", "Bake for 12 minutes."],
};
const texts = [
  "temperature=375 degrees F (190 degrees C), duration=none",
  "temperature=none, duration=none",
  "temperature=none, duration=12 MINUTES",
];

describe("requests", () => {
  it("of one prompt: a user message, with parameters shared and frozen", () => {
    const set = single("Sum up: {{ title }}");
    const [request, other] = [set.requests(row, 3), set.requests(row, 4)].map(([first]) => first!);
    expect(request).toEqual({
      origin: { index: 3, promptName: "prompt" },
      messages: [{ role: "user", content: "Sum up: Pie" }],
      parameters: generation,
      onTooLong: "fail",
    });
    expect(other!.parameters).toBe(request!.parameters);
    expect(Object.isFrozen(request!.parameters)).toBe(true);
    expect(set.names).toEqual(["prompt"]);
  });

  it("of several prompts and elements come in job order", () => {
    const set = several({
      steps: {
        forEach: "directions | sentences",
        prompt: "{{ loop.index }}/{{ loop.length }} {{ item }}",
      },
      sum: { system: "Be {{ mood | default('kind') }}.", prompt: "{{ title }}" },
      talk: {
        messages: [
          { role: "user", content: "{{ title }}?" },
          { role: "assistant", content: "Yes: " },
        ],
        onTooLong: "truncate-left",
      },
    });
    const requests = set.requests(row, 0);
    expect(requests.map(({ origin }) => [origin.promptName, origin.element])).toEqual([
      ...[
        ["steps", 0],
        ["steps", 1],
        ["steps", 2],
        ["sum", undefined],
        ["talk", undefined],
      ],
    ]);
    expect(requests[1]!.messages).toEqual([{ role: "user", content: "2/3 Mix well." }]);
    expect(requests[3]!.messages).toEqual([
      { role: "system", content: "Be kind." },
      { role: "user", content: "Pie" },
    ]);
    expect(requests[4]).toMatchObject({
      messages: [{ content: "Pie?" }, { content: "Yes: " }],
      onTooLong: "truncate-left",
    });
  });

  it("know the neighbours of an element", () => {
    const set = single({
      forEach: "directions",
      prompt: "{{ loop.previtem | default('-') }}|{{ loop.nextitem is defined }}",
    });
    const contents = set.requests(row, 0).map(({ messages }) => messages![0]!.content);
    expect(contents).toEqual(["-|true", `${row.directions[0]}|false`]);
  });

  it("of a completion are its prompt", () => {
    const [request] = single({ prompt: "{{ title }} is", api: "completion" }).requests(row, 0);
    expect(request).toMatchObject({ prompt: "Pie is" });
    expect(request).not.toHaveProperty("messages");
  });

  it("carry the line with the texts to copy from", () => {
    const set = single({ forEach: "directions", prompt: "{{ item }}", answer: { line, slots } });
    expect(set.requests(row, 0)[1]!.slottedLine).toEqual({
      line,
      slots: [
        { name: "temperature", source: row.directions[1], orElse: "none", maxWords: 6 },
        {
          ...{ name: "duration", source: row.directions[1], orElse: "none", maxWords: 8 },
          pattern: slots.duration.pattern,
        },
      ],
    });
  });

  it.each([
    [{ title: "x" }, "VARIABLE_MISSING"],
    [{ directions: "text" }, "FIELD_TYPE"],
    [{ directions: null }, "FIELD_TYPE"],
    [{ directions: new Array(limits.maxElements + 1).fill("x") }, "ELEMENTS_TOO_MANY"],
    [{ directions: [["nested"]] }, "FIELD_TYPE"],
    [{ directions: ["word ".repeat(limits.maxSlotSourceWords + 1)] }, "FIELD_TYPE"],
  ])("of %j fail by name", (bad, code) => {
    const set = single({ forEach: "directions", prompt: "{{ item }}", answer: { line, slots } });
    expect(() => set.requests(bad, 0)).toThrow(expect.objectContaining({ code, scope: "row" }));
  });
});

describe("answer", () => {
  const lines = (more: object) => {
    const answer = { line, slots, ...more };
    const set = single({ forEach: "directions | sentences", prompt: "{{ item }}", answer });
    const requests = set.requests(row, 0);
    const responses = requests.map((request, at) => set.accept(request, response(texts[at]!)));
    return { set, requests, responses };
  };

  it("of a plain prompt is its text, of several answers a list", () => {
    const set = single("{{ title }}");
    const requests = set.requests(row, 0);
    expect(set.accept(requests[0]!, response("a"))).toEqual(response("a"));
    expect(set.answer(requests, [response("a")])).toBe("a");
    expect(set.answer(requests, [response("a", "b")])).toEqual(["a", "b"]);
  });

  it("has the prompt before it where the full text is asked for", () => {
    const set = single({ prompt: "{{ title }} is", api: "completion" }, { returnFullText: true });
    const requests = set.requests(row, 0);
    expect(requests[0]!.parameters).not.toHaveProperty("returnFullText");
    expect(set.answer(requests, [response(" good")])).toBe("Pie is good");
  });

  it("of a line is its text and its slots, in the source's spelling", () => {
    const { set, requests, responses } = lines({});
    expect(set.answer(requests, responses)).toEqual([
      { text: texts[0], temperature: "375 degrees F (190 degrees C)", duration: null },
      { text: texts[1], temperature: null, duration: null },
      {
        text: "temperature=none, duration=12 minutes",
        temperature: null,
        duration: "12 minutes",
      },
    ]);
  });

  it("leaves out empty slots and elements, and joins with the numbers of the list", () => {
    const omit = { omitEmptySlots: true, omitEmptyElements: true };
    const dropped = lines(omit);
    expect(dropped.set.answer(dropped.requests, dropped.responses)).toMatchObject([
      { text: "temperature=375 degrees F (190 degrees C)" },
      { text: "duration=12 minutes" },
    ]);
    const joined = lines({ ...omit, join: "step{n}: {text} [{duration}]" });
    expect(joined.set.answer(joined.requests, joined.responses)).toBe(
      "step1: temperature=375 degrees F (190 degrees C) [none]\n" +
        "step2: duration=12 minutes [12 minutes]",
    );
  });

  it.each([
    ["sentences", ["Mix. Rest 5 minutes. Fold.", null, "Bake 9 minutes."], [1, 1, 1, 3]],
    ["lines", ["Mix.\nRest 5 minutes.", "Bake 9 minutes."], [1, 1, 2]],
    ["sentences", "Mix. Rest 5 minutes.", [1, 2]],
    ["sentences | list", ["Mix. Rest 5 minutes."], [1, 2]],
  ])("joined after | %s is numbered as the list that was cut: %j", (filter, steps, numbers) => {
    const answer = { line: "duration={duration}", slots: { duration: {} }, join: "{n}" };
    const set = single({ forEach: `steps | ${filter}`, prompt: "{{ item }}", answer });
    const requests = set.requests({ steps }, 0);
    const kept = JSON.parse(JSON.stringify(set.keeper!.keep(requests))) as PreparedRow;
    for (const asked of [requests, set.keeper!.restore(kept, 0, { steps })]) {
      const responses = asked.map((request) => set.accept(request, response("duration=none")));
      expect(set.answer(asked, responses)).toBe(numbers.join("\n"));
    }
  });

  it("of several prompts is an object in job order, with empty lists", () => {
    const set = several({
      z: "{{ title }}",
      a: { forEach: "steps", prompt: "{{ item }}" },
      m: "{{ title }}!",
    });
    const requests = set.requests({ title: "x", steps: [] }, 0);
    expect(requests).toHaveLength(2);
    const answer = set.answer(requests, [response("1"), response("2")]);
    expect(JSON.stringify(answer)).toBe('{"z":"1","a":[],"m":"2"}');
    expect(single({ forEach: "steps", prompt: "{{ item }}" }).answer([], [])).toEqual([]);
  });

  it("of a failed row has null for what is missing", () => {
    const { set, requests, responses } = lines({});
    expect(set.partialAnswer(requests, [responses[0], undefined, undefined])).toEqual([
      { text: texts[0], temperature: "375 degrees F (190 degrees C)", duration: null },
      ...[null, null],
    ]);
    const two = several({ a: "{{ title }}", b: "{{ title }}" });
    expect(two.partialAnswer(two.requests(row, 0), [undefined, response("x")])).toEqual({
      a: null,
      b: "x",
    });
    expect(two.partialAnswer([], [])).toEqual({ a: null, b: null });
    expect(set.partialAnswer([], [])).toBeNull();
  });
});

describe("accept and reask", () => {
  const set = single({ forEach: "directions", prompt: "{{ item }}", answer: { line, slots } });
  const [request] = set.requests(row, 0);

  it("refuse an answer with words for the model, and show them", () => {
    const bad = "temperature=very hot, duration=none";
    expect(() => set.accept(request!, response(bad))).toThrow(
      expect.objectContaining({
        code: "ANSWER_INVALID",
        retryable: true,
        message: expect.stringContaining('temperature="very hot" is not copied'),
      }),
    );
    const again = set.reask(request!, bad, "it is not copied");
    expect(again.messages).toEqual([
      ...request!.messages!,
      { role: "assistant", content: bad },
      { role: "user", content: expect.stringContaining("it is not copied") },
    ]);
    expect(request!.messages).toHaveLength(1);
    expect(again.slottedLine).toBe(request!.slottedLine);
  });

  it("go on from a begun answer, and leave a completion alone", () => {
    const begun = single({
      messages: [
        { role: "user", content: "q" },
        { role: "assistant", content: "So: " },
      ],
    }).requests(row, 0)[0]!;
    expect(set.reask(begun, "bad", "why").messages!.map(({ content }) => content)).toEqual([
      ...["q", "So: bad", expect.stringContaining("why")],
    ]);
    const [completion] = single({ prompt: "q", api: "completion" }).requests(row, 0);
    expect(set.reask(completion!, "bad", "why")).toBe(completion);
  });
});

describe("a job that contradicts itself", () => {
  const answer = (more: object) => ({ forEach: "directions", prompt: "x", answer: more });
  const one = { a: {} };

  it.each<[string, unknown, string, RegExp]>([
    [
      "slot unknown",
      answer({ line: "{aa}", slots: one }),
      "prompt.answer.line",
      /did you mean a\?/,
    ],
    [
      "slot not in the line",
      answer({ line: "{temp}", slots: { temp: {}, temperture: {} } }),
      ...(["prompt.answer.slots.temperture", /does not stand in the line/] as const),
    ],
    ["slot twice", answer({ line: "{a} {a}", slots: one }), "prompt.answer.line", /twice/],
    ["no slot", answer({ line: "a", slots: {} }), "prompt.answer.line", /no \{slot\}/],
    ["brace", answer({ line: "{a} }", slots: one }), "prompt.answer.line", /lone \}/],
    [
      "slots side by side",
      answer({ line: "{a}{b}", slots: { a: {}, b: {} } }),
      ...(["prompt.answer.line", /nothing parts/] as const),
    ],
    [
      "pattern",
      answer({ line: "{a}", slots: { a: { pattern: "(" } } }),
      ...(["prompt.answer.slots.a.pattern", /Invalid regular expression/] as const),
    ],
    [
      "reserved name",
      answer({ line: "{text}", slots: { text: {} } }),
      ...(["prompt.answer.slots.text", /another name/] as const),
    ],
    [
      "join name",
      answer({ line: "{a}", slots: one, join: "{nn}" }),
      ...(["prompt.answer.join", /did you mean n\?/] as const),
    ],
    [
      "join without forEach",
      { prompt: "x", answer: { line: "{a}", slots: one, join: "{n}" } },
      ...(["prompt.answer.join", /needs forEach/] as const),
    ],
    [
      "omit without forEach",
      { prompt: "x", answer: { line: "{a}", slots: one, omitEmptyElements: true } },
      ...(["prompt.answer.omitEmptyElements", /needs forEach/] as const),
    ],
    [
      "system in a completion",
      { prompt: "x", system: "y", api: "completion" },
      ...(["prompt.system", /no messages/] as const),
    ],
    [
      "messages in a completion",
      { messages: [{ role: "user", content: "x" }], api: "completion" },
      ...(["prompt.messages", /no messages/] as const),
    ],
  ])("%s", (_, prompt, field, message) => {
    expect(() => single(prompt)).toThrow(
      expect.objectContaining({
        code: "JOB_INVALID",
        place: expect.objectContaining({ field }),
        message: expect.stringMatching(message),
      }),
    );
  });

  it("asks for the full text of a chat or of a line", () => {
    const full = { returnFullText: true };
    expect(() => single("x", full)).toThrow(/generation\.returnFullText/);
    const slotted = { prompt: "x", api: "completion", answer: { line: "{a}", slots: one } };
    expect(() => single(slotted, full)).toThrow(/answer or schema, which give no text/);
  });

  it("says how a chat begins", () => {
    for (const prependBos of [true, false]) {
      expect(() => single("x", { prependBos })).toThrow(/prompt is a chat.*generation\.prependBos/);
      expect(() => single({ prompt: "x", api: "completion" }, { prependBos })).not.toThrow();
    }
  });

  it("names the part that a bad template stands in", () => {
    const prompt = { ...answer({ line: "{a}", slots: { a: { copyFrom: "| x" } } }) };
    expect(() => single(prompt)).toThrow(/prompt\.answer\.slots\.a\.copyFrom/);
    expect(() => several({ p: { prompt: "x", forEach: "a b" } })).toThrow(/prompts\.p\.forEach/);
    expect(() => several({ p: { prompt: "x", system: "{{" } })).toThrow(/prompts\.p\.system/);
  });
});
