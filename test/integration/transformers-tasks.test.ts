import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { openTransformers } from "../../src/engines/transformers/engine.ts";
import type { InferenceRequest, SamplingParameters } from "../../src/foundation/inference.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import { wavBytes } from "../engines/transformers/wav-bytes.ts";
import golden from "../golden/tiny-models/golden.json" with { type: "json" };
import { engineContext } from "./llama-files.ts";
import {
  missingTransformers,
  rowRequest,
  toyOptions,
  transformersOptions,
} from "./transformers-files.ts";

const missing = await missingTransformers();
const never = new AbortController().signal;
const folder = join(import.meta.dirname, "../golden/tiny-models");

let engine: Engine | undefined;
beforeEach((context) => context.skip(missing !== undefined, missing));
afterEach(async () => {
  await engine?.close();
  engine = undefined;
});

async function open(task: string, name: string, given: JsonObject = {}): Promise<Engine> {
  const options = { task, name: join(folder, name), threads: 1, ...given };
  engine = await openTransformers(transformersOptions(options), engineContext);
  return engine;
}

async function answersOf(opened: Engine, requests: readonly InferenceRequest[]) {
  const responses = await Promise.all(requests.map((request) => opened.infer(request, never)));
  return responses.map(({ answers }) => answers[0]!);
}

const texts = (rows: readonly string[]) => rows.map((text, index) => rowRequest(index, { text }));

describe("text-generation", () => {
  const { causal } = golden;

  it("goes on as the reference does, in batches padded on the left and alone", async () => {
    const opened = await open("text-generation", "causal");
    for (const { parameters, answers, tokens } of causal.cases) {
      const { num_beams: numBeams, length_penalty: lengthPenalty } = parameters;
      const asked: Partial<SamplingParameters> = {
        maxNewTokens: 12,
        ...(numBeams && { numBeams }),
        ...(lengthPenalty !== undefined && { lengthPenalty }),
        ...(parameters.repetition_penalty && { repetitionPenalty: parameters.repetition_penalty }),
      };
      const requests = causal.texts.map((text, index) => rowRequest(index, { text }, asked));
      const together = await answersOf(opened, requests);
      expect(together.map(({ text }) => text)).toEqual(answers);
      expect(together.map((answer) => answer.tokens)).toEqual(tokens);
      for (const [at, request] of requests.entries()) {
        expect(await answersOf(opened, [request])).toEqual([together[at]]);
      }
    }
  });

  it("puts a conversation through the model's own template", async () => {
    const opened = await open("text-generation", "causal");
    const { row: _, ...bare } = rowRequest(0, {}, { maxNewTokens: 6 });
    const messages = [{ role: "user" as const, content: "a dog" }];
    const [chat, plain] = await answersOf(opened, [
      { ...bare, messages },
      { ...bare, prompt: "a dog the" },
    ]);
    expect(chat).toEqual(plain);
  });

  it("counts the prompt against the context, and cuts it where it is told to", async () => {
    const opened = await open("text-generation", "causal");
    const long = rowRequest(0, { text: "dog ".repeat(45) }, { maxNewTokens: 10 });
    await expect(opened.infer(long, never)).rejects.toMatchObject({ code: "PROMPT_TOO_LONG" });
    const cut = await opened.infer({ ...long, onTooLong: "truncate-left" }, never);
    expect(cut.usage.promptTokens).toBe(38);
    const messages = [{ role: "user" as const, content: "dog ".repeat(45) }];
    const chat = opened.infer({ ...long, onTooLong: "truncate-left", messages }, never);
    await expect(chat).rejects.toMatchObject({ code: "PROMPT_TOO_LONG" });
    const bounded = rowRequest(0, { text: "a dog" }, { maxNewTokens: 11, maxLength: 5 });
    const { answers } = await opened.infer(bounded, never);
    expect(answers[0]!.tokens).toBe(3);
  });

  it("refuses chance beside beams", async () => {
    const opened = await open("text-generation", "causal");
    const request = rowRequest(0, { text: "a dog" }, { numBeams: 2, temperature: 1 });
    await expect(opened.infer(request, never)).rejects.toMatchObject({ code: "UNSUPPORTED" });
  });
});

describe("text-classification", () => {
  const { classes } = golden;

  it("gives the likeliest label, or all of them, with the reference's scores", async () => {
    const wanted = classes.scores.map((scores) =>
      scores
        .map((score, at) => ({ label: classes.labels[at]!, score }))
        .sort((one, other) => other.score - one.score),
    );
    const near = ({ label, score }: { label: string; score: number }) => ({
      label,
      score: expect.closeTo(score, 4) as number,
    });
    const all = await open("text-classification", "classes", { topLabels: "all" });
    const given = await answersOf(all, texts(classes.texts));
    expect(given.map(({ value }) => value)).toEqual(wanted.map((labels) => labels.map(near)));
    await all.close();
    const best = await open("text-classification", "classes");
    const [first] = await answersOf(best, texts(classes.texts));
    expect(first!.value).toEqual(near(wanted[0]![0]!));
    expect(JSON.parse(first!.text)).toEqual(first!.value);
  });
});

describe("zero-shot-classification", () => {
  const { classes } = golden;
  const options = {
    candidateLabels: classes.candidates,
    hypothesisTemplate: "this text is about {}",
  };
  const scoresOf = (value: unknown) => {
    const { labels, scores } = value as { labels: string[]; scores: number[] };
    expect(scores).toEqual([...scores].sort((one, other) => other - one));
    return classes.candidates.map((label) => scores[labels.indexOf(label)]!);
  };

  it.each([
    ["one label", false, classes.zeroShot],
    ["each label for itself", true, classes.multiLabel],
  ])("judges %s as the reference does", async (_, multiLabel, wanted) => {
    const opened = await open("zero-shot-classification", "classes", { ...options, multiLabel });
    const answers = await answersOf(opened, texts(classes.texts));
    for (const [at, { value }] of answers.entries()) {
      for (const [place, score] of scoresOf(value).entries()) {
        expect(score).toBeCloseTo(wanted[at]![place]!, 4);
      }
    }
  });

  it("takes the row's own labels, as a list or a text", async () => {
    const column = { candidateLabelsColumn: "labels", hypothesisTemplate: "this text is about {}" };
    const opened = await open("zero-shot-classification", "classes", column);
    const rows = [
      { text: "a dog", labels: ["animals", "houses"] },
      { text: "a dog", labels: "animals, houses" },
    ];
    const [list, text] = await answersOf(
      opened,
      rows.map((row, index) => rowRequest(index, row)),
    );
    expect(list).toEqual(text);
    const none = opened.infer(rowRequest(0, { text: "a dog", labels: [] }), never);
    await expect(none).rejects.toMatchObject({ code: "COLUMN_INVALID" });
  });

  it("needs labels", async () => {
    await expect(open("zero-shot-classification", "classes")).rejects.toMatchObject({
      code: "TASK_UNUSABLE",
    });
  });
});

describe("batches", () => {
  it("grow by themselves, and find rows to grow by", async () => {
    const opened = await open("feature-extraction", "classes", { maxBatchRows: "auto" });
    expect(opened.capacity).toBeGreaterThan(1000);
    const rows = Array.from({ length: 300 }, (_, at) => "a dog ".repeat((at % 7) + 1));
    const [first, ...others] = await answersOf(opened, texts(rows));
    expect(others).toHaveLength(299);
    expect((first!.value as number[]).every(Number.isFinite)).toBe(true);
    expect(others[6]!.value).toEqual(first!.value);
  });
});

describe("summarization", () => {
  it("is written by an encoder and a decoder, with no languages to be named", async () => {
    const { srcLang: _, tgtLang: __, ...options } = toyOptions({ task: "summarization" });
    engine = await openTransformers(options, engineContext);
    const [answer] = await answersOf(engine, texts(["house dog"]));
    expect(answer!.tokens).toBeGreaterThan(0);
  });
});

describe("automatic-speech-recognition", () => {
  it("hears what the reference hears, at any rate of samples", async () => {
    const opened = await open("automatic-speech-recognition", "speech", { srcLang: "fr" });
    const wanted = Object.entries(golden.speech.heard).flatMap(([hertz, text]) =>
      [16_000, 44_100].map((rate) => ({ hertz: Number(hertz), rate, text })),
    );
    const requests = wanted.map(({ hertz, rate }, index) => {
      const tone = Array.from({ length: rate }, (_, at) => {
        return 0.5 * Math.sin((2 * Math.PI * hertz * at) / rate);
      });
      const sound = wavBytes([tone], rate, { code: 1, bits: 16 }).toString("base64");
      return rowRequest(index, { audio: `data:audio/wav;base64,${sound}` });
    });
    const heard = await answersOf(opened, requests);
    expect(heard.map(({ text }) => text)).toEqual(wanted.map(({ text }) => text));
  });
});
