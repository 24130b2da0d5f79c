import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import {
  type InferenceRequest,
  type InferenceResponse,
  noUsage,
  type Usage,
} from "../../../src/foundation/inference.ts";
import { limits } from "../../../src/foundation/limits.ts";
import type { PromptSet } from "../../../src/prompt/prompt-set.ts";
import { sendUntilAccepted } from "../../../src/run/execute/tries.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { virtualClock } from "../../fakes/virtual-clock.ts";
import { scriptedEngine } from "../scripted-engine.ts";
import { execution } from "./execution.ts";

describe("several answers to one prompt", () => {
  const schema = { type: "integer", minimum: 5 };
  const prompt = { prompt: "How many? {{ text }}", schema };
  const rows = ['{"text":"a"}'];
  const respond = (...texts: string[]): InferenceResponse => ({
    answers: texts.map((text) => ({ text, finishReason: "stop", tokens: 2 })),
    usage: { promptTokens: 7, cachedTokens: 0, completionTokens: 2 * texts.length },
    seconds: 0.25,
  });
  /** What is asked of an engine that gives these responses one after another. */
  async function asking(given: InferenceResponse[], changes: Partial<JobInput> = {}) {
    const seen: InferenceRequest[] = [];
    const engine = scriptedEngine(1, (request, before) => {
      seen.push(request);
      return given[before]!;
    });
    const generation = { numReturnSequences: 3, temperature: 1 };
    const job = { prompt, generation, ...changes };
    const { add, end, results, letters } = await execution(rows, engine, { job });
    const { usage } = await add(0);
    await end();
    return { seen, usage, results, letters };
  }
  const askedFor = (seen: InferenceRequest[]) =>
    seen.map(({ parameters }) => parameters.numReturnSequences);

  it("are kept where they are right; only the others are asked again", async () => {
    const given = [respond("6", "2", "x"), respond("7", "4"), respond("8")];
    const { seen, usage, results } = await asking(given);
    expect(askedFor(seen)).toEqual([3, 2, 1]);
    const shown = seen.map(({ messages }) => messages!.slice(1).map(({ content }) => content));
    expect(shown).toEqual([
      [],
      ["2", expect.stringMatching(/must be .*5.*, not 2/)],
      ["4", expect.stringMatching(/must be .*5.*, not 4/)],
    ]);
    expect(await results(0)).toMatchObject([{ answer: [6, 7, 8] }]);
    // Three prompts, and each of the six answers once.
    expect(usage).toEqual({ promptTokens: 21, cachedTokens: 0, completionTokens: 12 });
  });

  it("end as a dead letter with the wrong one, and all of them are paid for", async () => {
    const given = [respond("6", "2", "7"), respond("3"), respond("4")];
    const { seen, usage, letters } = await asking(given);
    expect(askedFor(seen)).toEqual([3, 1, 1]);
    expect(await letters(0)).toMatchObject([
      { code: "ANSWER_INVALID", attempts: 3, lastAnswer: "4" },
    ]);
    expect(usage).toEqual({ promptTokens: 21, cachedTokens: 0, completionTokens: 10 });
  });

  it("are paid for when what comes after is an error", async () => {
    const refused = new SluiceError("REQUEST_REFUSED", "no");
    const given = [respond("6", "2", "7"), refused as unknown as InferenceResponse];
    const { usage, letters } = await asking(given);
    expect(await letters(0)).toMatchObject([{ code: "REQUEST_REFUSED" }]);
    expect(usage).toEqual({ promptTokens: 7, cachedTokens: 0, completionTokens: 6 });
  });

  it("cost nothing where they were taken from an equal request", async () => {
    const refused = new SluiceError("REQUEST_REFUSED", "no");
    const reused = { ...respond("6", "2", "7"), reused: true as const };
    const { usage, letters } = await asking([reused, refused as unknown as InferenceResponse]);
    expect(await letters(0)).toMatchObject([{ code: "REQUEST_REFUSED" }]);
    expect(usage).toEqual(noUsage);
  });

  it("of a completion, which shows nothing, have seeds that were not asked yet", async () => {
    const given = [respond("6", "2", "7"), respond("x"), respond("8")];
    const { seen, results } = await asking(given, { prompt: { ...prompt, api: "completion" } });
    expect(seen.map(({ prompt: text }) => text)).toEqual([
      "How many? a",
      "How many? a",
      "How many? a",
    ]);
    const first = seen[0]!.parameters.seed;
    expect(seen.map(({ parameters }) => parameters.seed - first)).toEqual([0, 3, 4]);
    expect(await results(0)).toMatchObject([{ answer: [6, 7, 8] }]);
  });
});

describe("sendUntilAccepted", () => {
  const request = {
    messages: [{ role: "user", content: "a" }],
    parameters: {},
  } as unknown as InferenceRequest;
  const answered: InferenceResponse = {
    answers: [{ text: "yes", finishReason: "stop", tokens: 2 }],
    usage: { ...noUsage, promptTokens: 5 },
    seconds: 0,
  };
  const takesAll = { accept: (_: unknown, it: InferenceResponse) => it } as unknown as PromptSet;

  /** Asks what answers in this order; tells what was paid, and when it was asked. */
  async function asking(
    replies: (InferenceResponse | SluiceError)[],
    more: Partial<Parameters<typeof sendUntilAccepted>[2]> = {},
  ) {
    const clock = virtualClock();
    const askedMs: number[] = [];
    let paid = 0;
    const ask = async () => {
      const reply = replies[askedMs.length]!;
      askedMs.push(clock.monotonic());
      if (reply instanceof SluiceError) throw reply;
      return reply;
    };
    const options = {
      ...{ promptSet: takesAll, maxTries: 3, clock, signal: new AbortController().signal },
      // Every wait is half of what it may be.
      random: { next: () => 0.5 },
      addUsage: (usage: Usage) => {
        paid += usage.promptTokens;
      },
      ...more,
    };
    const ended = clock.run(sendUntilAccepted(ask, request, options).catch((error) => error));
    return { ended: (await ended) as InferenceResponse | SluiceError, askedMs, paid };
  }

  it("waits longer after each failure, and as long as a server says", async () => {
    const failed = new SluiceError("SERVER_ERROR");
    const { ended, askedMs } = await asking([failed, failed, answered]);
    expect(ended).toBe(answered);
    const [, first = 0, second = 0] = askedMs;
    expect(first).toBe(limits.backoffBaseMs / 2);
    expect(second - first).toBe(limits.backoffBaseMs);
    const asks = new SluiceError("SERVER_ERROR", "", { retryAfterMs: 7000 });
    expect((await asking([asks, answered])).askedMs).toEqual([0, 7000]);
  });

  it("gives up after the last try, and at once where another changes nothing", async () => {
    const failed = new SluiceError("SERVER_ERROR");
    expect(await asking([failed, failed, failed])).toMatchObject({ ended: failed });
    const refused = new SluiceError("REQUEST_REFUSED");
    expect((await asking([refused, answered])).askedMs).toEqual([0]);
    const died = new SluiceError("ENGINE_DIED");
    expect((await asking([died, answered])).askedMs).toEqual([0]);
    const passes = await asking([died, answered], { mayPass: () => true });
    expect(passes.ended).toBe(answered);
  });

  it("ends with the reason of its signal, whatever the request fails with then", async () => {
    const stop = new AbortController();
    const refused = new SluiceError("REQUEST_REFUSED");
    const ask = async () => {
      stop.abort(new Error("the caller left"));
      throw refused;
    };
    const options = {
      ...{ promptSet: takesAll, maxTries: 3, clock: virtualClock(), signal: stop.signal },
      random: { next: () => 0.5 },
    };
    await expect(sendUntilAccepted(ask, request, options)).rejects.toThrow("the caller left");
  });

  it("counts what every try has cost, a failed one too, and nothing that is reused", async () => {
    const failed = new SluiceError("ANSWER_EMPTY");
    failed.paid = { ...noUsage, promptTokens: 3 };
    expect((await asking([failed, answered])).paid).toBe(8);
    expect((await asking([{ ...answered, reused: true }])).paid).toBe(0);
  });

  it("shows the model the calls of a wrong answer", async () => {
    const called = { name: "weather", arguments: '{"days": 3}' };
    const wrong: InferenceResponse = {
      ...answered,
      answers: [
        {
          ...answered.answers[0]!,
          toolCalls: [{ id: "1", type: "function", function: called }],
        },
      ],
    };
    const shown: string[] = [];
    const promptSet = {
      accept(_: unknown, { answers }: InferenceResponse) {
        if (answers[0]!.toolCalls) throw new SluiceError("ANSWER_INVALID", "7 is a week");
        return answered;
      },
      reask(again: InferenceRequest, text: string) {
        shown.push(text);
        return again;
      },
    } as unknown as PromptSet;
    expect(await asking([wrong, answered], { promptSet })).toMatchObject({ ended: answered });
    expect(shown).toEqual([`yes\n${JSON.stringify(called)}`]);
  });
});
