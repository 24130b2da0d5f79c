import { afterAll, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { type ErrorCode, errorTable } from "../../src/foundation/error-table.ts";
import type { SluiceError } from "../../src/foundation/errors.ts";
import {
  type AnswerDelta,
  greedyParameters,
  type InferenceRequest,
  type InferenceResponse,
  type SamplingParameters,
  type SlottedLine,
} from "../../src/foundation/inference.ts";
import { candidateSpans } from "../../src/foundation/spans.ts";

/** An engine and what is known of it. */
export interface EngineUnderTest {
  engine: Engine;
  /** The same request gives the same answer, whatever else is asked at the time. */
  isDeterministic: boolean;
  /** It writes slotted lines as asked, rather than leaving that to checks and re-asking. */
  enforcesSlots?: boolean;
  /** It takes `numReturnSequences`. */
  answersSeveral?: boolean;
  /** It takes `logprobs`. */
  reportsLogprobs?: boolean;
  /** It tells answers as deltas, as every engine does that a job opens. */
  tellsDeltas?: boolean;
  /** A request that fails for good, and how. */
  failing?: { request: InferenceRequest; code: ErrorCode };
}

/**
 * Opens an engine for one test. Where `isSlow` is set, an answer must take so long that a caller
 * can change its mind meanwhile (50 ms will do); a real model is slow enough as it is. Where
 * `mustClose` is set, the test is about the end of the engine.
 */
export type MakeEngine = (needs: Needs) => Promise<EngineUnderTest>;

interface Needs {
  isSlow: boolean;
  mustClose: boolean;
}

const parameters: SamplingParameters = {
  ...greedyParameters,
  maxNewTokens: 8,
  seed: 7,
};

/**
 * A request such as the suite asks, for engines that need one to fail.
 *
 * @example
 * conformanceRequest(999); // a chat request of row 999
 */
export function conformanceRequest(index: number): InferenceRequest {
  return {
    messages: [{ role: "user", content: `Say a few words about the number ${index}.` }],
    parameters,
    origin: { index, promptName: "conformance" },
  };
}

/**
 * Gives one engine each time, for those that take long to open; it is closed after all tests. It
 * suits where `mustClose` is not set.
 */
export function keptOpen(open: () => Promise<Engine>): () => Promise<Engine> {
  let opened: Promise<Engine> | undefined;
  afterAll(async () => (await opened)?.close());
  return async () => {
    opened ??= open();
    const engine = await opened;
    const infer: Engine["infer"] = (...given) => engine.infer(...given);
    return { name: engine.name, capacity: engine.capacity, infer, close: async () => {} };
  };
}

/**
 * Tests every promise of `Engine` on one implementation.
 *
 * @param makeEngine opens a fresh engine; the suite closes it.
 * @example
 * engineConformance("mine", async () => ({ engine: openMine(), isDeterministic: true }));
 */
export function engineConformance(name: string, makeEngine: MakeEngine): void {
  describe(`engine conformance: ${name}`, () => {
    for (const clauses of [
      answerClauses,
      crowdClauses,
      endClauses,
      optionalClauses,
      parameterClauses,
      deltaClauses,
    ]) {
      clauses(makeEngine);
    }
  });
}

type Clauses = (make: MakeEngine) => void;

const answerClauses: Clauses = (make) => {
  it("answers one request, with plausible tokens and usage", () =>
    withEngine(make, async ({ engine }) => {
      expect(Number.isInteger(engine.capacity) && engine.capacity >= 1).toBe(true);
      const response = await engine.infer(conformanceRequest(0), never());
      expect(response.answers.length).toBe(1);
      expect(faultsOf(response)).toEqual([]);
    }));

  it("answers a bare prompt that belongs to no run", () =>
    withEngine(make, async ({ engine }) => {
      const { messages: _, origin: _none, ...request } = conformanceRequest(0);
      const response = await engine.infer({ ...request, prompt: "Once upon a time" }, never());
      expect(faultsOf(response)).toEqual([]);
    }));

  it("counts more prompt tokens for a longer prompt", () =>
    withEngine(make, async ({ engine }) => {
      const content = "one two three four five six seven eight nine ten ".repeat(3);
      const long = { ...conformanceRequest(0), messages: [{ role: "user" as const, content }] };
      const short = await engine.infer(conformanceRequest(0), never());
      const longer = await engine.infer(long, never());
      expect(longer.usage.promptTokens > short.usage.promptTokens).toBe(true);
    }));

  it("obeys maxNewTokens", () =>
    withEngine(make, async ({ engine }) => {
      for (const maxNewTokens of [1, 2]) {
        const limited = { ...parameters, maxNewTokens, explicit: ["maxNewTokens"] };
        const request = { ...conformanceRequest(1), parameters: limited };
        const [answer] = (await engine.infer(request, never())).answers;
        expect(answer!.tokens <= maxNewTokens).toBe(true);
        // A model may end by itself on the very token that the limit is.
        expect(["length", "stop"].includes(answer!.finishReason)).toBe(true);
      }
    }));
};

const crowdClauses: Clauses = (make) => {
  it("answers many at once, up to its capacity and beyond, each its own", () =>
    withEngine(make, async ({ engine, isDeterministic }) => {
      const count = Math.min(2 * engine.capacity + 1, 40);
      const requests = Array.from({ length: count }, (_, index) => conformanceRequest(index));
      const crowd = await Promise.all(requests.map((request) => engine.infer(request, never())));
      expect(crowd.flatMap(faultsOf)).toEqual([]);
      if (!isDeterministic) return;
      for (const index of [0, Math.floor(count / 2), count - 1]) {
        const alone = await engine.infer(requests[index]!, never());
        expect(textOf(crowd[index]!)).toBe(textOf(alone));
      }
    }));

  it("rejects aborted requests with the signal's reason and frees their places", () =>
    withEngine(
      make,
      async ({ engine }) => {
        const controller = new AbortController();
        const reason = new Error("changed my mind");
        const count = Math.min(engine.capacity + 2, 40);
        const aborted = Array.from({ length: count }, (_, index) =>
          settle(engine.infer(conformanceRequest(index), controller.signal)),
        );
        const kept = engine.infer(conformanceRequest(count), never());
        controller.abort(reason);
        expect((await Promise.all(aborted)).map(({ error }) => error === reason)).toEqual(
          aborted.map(() => true),
        );
        expect(faultsOf(await kept)).toEqual([]);
        const next = Array.from({ length: count }, (_, index) =>
          engine.infer(conformanceRequest(index), never()),
        );
        expect((await Promise.all(next)).flatMap(faultsOf)).toEqual([]);
      },
      { isSlow: true },
    ));

  it("does not take a request whose signal is aborted already", () =>
    withEngine(make, async ({ engine }) => {
      const reason = new Error("too late");
      const { error } = await settle(
        engine.infer(conformanceRequest(0), AbortSignal.abort(reason)),
      );
      expect(error).toBe(reason);
    }));
};

const endClauses: Clauses = (make) => {
  it("rejects what it holds when it is closed, and what comes after", () =>
    withEngine(
      make,
      async ({ engine }) => {
        const held = [0, 1, 2].map((index) =>
          settle(engine.infer(conformanceRequest(index), never())),
        );
        await engine.close();
        for (const { error } of await Promise.all(held)) expect(isNamed(error)).toBe(true);
        const { error } = await settle(engine.infer(conformanceRequest(3), never()));
        expect(isNamed(error)).toBe(true);
        await engine.close();
      },
      { isSlow: true, mustClose: true },
    ));
};

/** What only some engines promise; where one does not, its test ends without a check. */
const optionalClauses: Clauses = (make) => {
  it("gives the same answer to the same request where it says so", () =>
    withEngine(make, async ({ engine, isDeterministic }) => {
      if (!isDeterministic) return;
      const first = await engine.infer(conformanceRequest(5), never());
      const second = await engine.infer(conformanceRequest(5), never());
      expect(second.answers).toEqual(first.answers);
      expect(second.usage.completionTokens).toBe(first.usage.completionTokens);
    }));

  it("names a failure with its scope, and goes on", () =>
    withEngine(make, async ({ engine, failing }) => {
      if (!failing) return;
      const { error } = await settle(engine.infer(failing.request, never()));
      const { code, scope, retryable } = error as SluiceError;
      const entry = errorTable[failing.code];
      expect({ code, scope, retryable }).toEqual({
        code: failing.code,
        scope: entry.scope,
        retryable: entry.retryable,
      });
      expect(faultsOf(await engine.infer(conformanceRequest(0), never()))).toEqual([]);
    }));
};

/** Parameters that only some engines take; as with `optionalClauses`. */
const parameterClauses: Clauses = (make) => {
  it("answers as often as it is asked to where it says so", () =>
    withEngine(make, async ({ engine, answersSeveral }) => {
      if (!answersSeveral) return;
      const several = { ...parameters, temperature: 1, numReturnSequences: 3 };
      const response = await engine.infer(
        { ...conformanceRequest(2), parameters: several },
        never(),
      );
      expect(response.answers.length).toBe(3);
      expect(faultsOf(response)).toEqual([]);
    }));

  it("reports log-probabilities where it says so", () =>
    withEngine(make, async ({ engine, reportsLogprobs }) => {
      if (!reportsLogprobs) return;
      const reported = { ...conformanceRequest(3), parameters: { ...parameters, logprobs: 2 } };
      const { logprobs = [] } = (await engine.infer(reported, never())).answers[0]!;
      expect(logprobs.length > 0).toBe(true);
      for (const { logprob, alternatives } of logprobs) {
        const values = alternatives.map((alternative) => alternative.logprob);
        expect([logprob, ...values].every((value) => value <= 0 && value > -1e5)).toBe(true);
        expect(values.length).toBe(2);
        expect(values[0]! >= values[1]!).toBe(true);
      }
      const plain = await engine.infer(conformanceRequest(3), never());
      expect(plain.answers[0]!.logprobs).toBe(undefined);
    }));

  it("fills the slots of a line by copying where it says so", () =>
    withEngine(make, async ({ engine, enforcesSlots }) => {
      if (!enforcesSlots) return;
      const { text } = (
        await engine.infer(
          {
            ...conformanceRequest(0),
            slottedLine: ovenLine,
            parameters: { ...parameters, maxNewTokens: 40 },
          },
          never(),
        )
      ).answers[0]!;
      const values = ovenLine.slots.map((slot) => [slot.orElse, ...candidateSpans(slot)]);
      const match = /^time=(.+), °F=(.+)$/.exec(text);
      expect(match !== null).toBe(true);
      expect(values.every((allowed, place) => allowed.includes(match![place + 1]!))).toBe(true);
    }));
};

/** What holds of deltas, of whichever an engine tells. */
const deltaClauses: Clauses = (make) => {
  it("tells of each answer what it is in the end, in order, and the same as without", () =>
    withEngine(make, async ({ engine, isDeterministic, tellsDeltas, answersSeveral }) => {
      const numReturnSequences = answersSeveral ? 3 : 1;
      const several = { ...parameters, numReturnSequences };
      const request = { ...conformanceRequest(4), parameters: several };
      const { response, texts, deltas } = await heard(engine, request);
      expect(faultsOf(response)).toEqual([]);
      expect(deltas.every(({ text }) => text !== "")).toBe(true);
      const isSaid = (choice: number) => tellsDeltas || texts[choice] !== undefined;
      for (const [choice, { text }] of response.answers.entries()) {
        if (isSaid(choice)) expect(texts[choice] ?? "").toBe(text);
      }
      const told = deltas.length;
      const silent = await engine.infer(request, never());
      expect(deltas.length).toBe(told);
      if (!isDeterministic) return;
      expect(silent.answers).toEqual(response.answers);
      expect(silent.usage.completionTokens).toBe(response.usage.completionTokens);
    }));

  it("tells nothing that a stop text takes back", () =>
    withEngine(make, async ({ engine, isDeterministic, tellsDeltas }) => {
      const whole = textOf(await engine.infer(conformanceRequest(6), never()));
      // It begins in the middle of a word, so that some of it would show.
      const stop = whole.slice(2, 7);
      if (!isDeterministic || stop.trim() === "") return;
      const request = { ...conformanceRequest(6), parameters: { ...parameters, stop: [stop] } };
      const { response, texts } = await heard(engine, request);
      if (tellsDeltas || texts.length > 0) expect(texts[0] ?? "").toBe(textOf(response));
    }));

  it("tells many requests each its own", () =>
    withEngine(make, async ({ engine, tellsDeltas }) => {
      const all = Array.from({ length: 6 }, (_, index) => heard(engine, conformanceRequest(index)));
      for (const { response, texts } of await Promise.all(all)) {
        if (tellsDeltas) expect(texts[0] ?? "").toBe(textOf(response));
      }
    }));

  it("tells nothing after an abort in the midst, and goes on with others", () =>
    withEngine(
      make,
      async ({ engine, tellsDeltas }) => {
        const controller = new AbortController();
        const reason = new Error("heard enough");
        let told = 0;
        const { error } = await settle(
          engine.infer(conformanceRequest(7), controller.signal, () => {
            told++;
            controller.abort(reason);
          }),
        );
        if (!tellsDeltas) return;
        expect(error).toBe(reason);
        expect(faultsOf((await heard(engine, conformanceRequest(8))).response)).toEqual([]);
        expect(told).toBe(1);
      },
      { isSlow: true },
    ));
};

/** A response, and what was told of it before it was there. */
async function heard(engine: Engine, request: InferenceRequest) {
  const deltas: AnswerDelta[] = [];
  const response = await engine.infer(request, never(), (delta) => void deltas.push(delta));
  const texts: string[] = [];
  for (const { choice, text } of deltas) texts[choice] = (texts[choice] ?? "") + text;
  return { response, deltas, texts };
}

const source = "Bake at 350°F for 25 minutes.";
const ovenLine: SlottedLine = {
  // Grammars may take a letter after a sign beyond ASCII for one of its digits.
  line: "time={time}, °F={heat}",
  slots: [
    { name: "time", source, orElse: "none", maxWords: 2, pattern: "\\d+ minutes" },
    { name: "heat", source, orElse: "none", maxWords: 2, pattern: "\\d+°F" },
  ],
};

async function withEngine(
  make: MakeEngine,
  body: (under: EngineUnderTest) => Promise<void>,
  needs: Partial<Needs> = {},
): Promise<void> {
  const under = await make({ isSlow: false, mustClose: false, ...needs });
  try {
    await body(under);
  } finally {
    await under.engine.close();
  }
}

function never(): AbortSignal {
  return new AbortController().signal;
}

async function settle(promise: Promise<unknown>): Promise<{ error: unknown }> {
  try {
    await promise;
    return { error: undefined };
  } catch (error) {
    return { error };
  }
}

function isNamed(error: unknown): boolean {
  return error instanceof Error && String((error as Partial<SluiceError>).code) in errorTable;
}

function textOf(response: InferenceResponse): string {
  return response.answers.map(({ text }) => text).join("\n");
}

/** What is implausible about a response, in words; nothing when all is well. */
function faultsOf({ answers, usage, seconds }: InferenceResponse): string[] {
  const isCount = (value: number) => Number.isInteger(value) && value >= 0;
  const answered = answers.reduce((sum, { tokens }) => sum + tokens, 0);
  const checks: [boolean, string][] = [
    [answers.length > 0, "no answer"],
    [answers.every(({ text }) => typeof text === "string"), "an answer without text"],
    [answers.every(({ tokens }) => isCount(tokens)), "tokens that are not a count"],
    [Object.values(usage).every(isCount), "usage that is not a count"],
    [usage.promptTokens > 0, "no prompt tokens"],
    [usage.cachedTokens <= usage.promptTokens, "more cached tokens than prompt tokens"],
    [usage.completionTokens >= answered, "fewer tokens paid for than answered"],
    [seconds >= 0 && seconds < 600, `${seconds} seconds`],
  ];
  return checks.flatMap(([holds, fault]) => (holds ? [] : [fault]));
}
