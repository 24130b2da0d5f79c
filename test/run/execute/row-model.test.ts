import { describe, expect, it } from "vitest";
import type { Engine } from "../../../src/engines/engine.ts";
import { openEngine } from "../../../src/engines/registry.ts";
import { type InferenceRequest, noUsage, type Usage } from "../../../src/foundation/inference.ts";
import { assertStagesAskable, rowModelOpener } from "../../../src/run/execute/row-model.ts";
import { type JobInput, type JobSpec, jobSchema } from "../../../src/run/job/schema.ts";
import { engineContext, rejectionOf } from "../../engines/engine-context.ts";
import { localInputs } from "../../local-inputs.ts";

const { signal } = new AbortController();
const fake = (changes: object = {}) => ({ engine: "fake", ...changes });

function jobWith(stage: object, changes: Partial<JobInput> = {}): JobSpec {
  const stages = [{ kind: "generate", ...stage }];
  return jobSchema.parse({ input: "/in.jsonl", model: { engine: "pipeline", stages }, ...changes });
}

async function modelOf(stage: object) {
  const job = jobWith(stage);
  if (job.model.engine !== "pipeline") throw new Error("it is a pipeline");
  // Waits between tries are drawn from 0.
  const context = engineContext({ random: { next: () => 0 } });
  return rowModelOpener(job, 3, openEngine, localInputs)(job.model.stages[0] as never, context);
}

describe("a model that a stage asks", () => {
  it("puts the answer into the row, and tells what it cost", async () => {
    const model = await modelOf({ model: fake(), prompt: "Say {{ word }}", field: "said" });
    let paid: Usage | undefined;
    const addUsage = (usage: Usage) => {
      paid = usage;
    };
    const row = await model.ask({ id: 1, word: "yes" }, 0, { signal, addUsage });
    expect(row).toMatchObject({ id: 1, word: "yes", said: expect.any(String) });
    expect(paid?.completionTokens).toBeGreaterThan(0);
    await model.close();
  });

  it("asks again where a try fails and another may do", async () => {
    const model = await modelOf({ model: fake({ failureRate: 0.5 }), prompt: "{{ id }}" });
    const rows = Array.from({ length: 30 }, (_, id) =>
      model.ask({ id }, id, { signal, addUsage() {} }).then(
        () => "answered",
        (error) => error.code as string,
      ),
    );
    const outcomes = await Promise.all(rows);
    // One try alone would leave half of them.
    expect(outcomes.filter((outcome) => outcome === "answered").length).toBeGreaterThan(20);
    await model.close();
  });

  it("answers in the form of a schema", async () => {
    const schema = {
      type: "object",
      properties: { label: { enum: ["good", "bad"] } },
      required: ["label"],
      additionalProperties: false,
    };
    const model = await modelOf({ model: fake(), prompt: "{{ id }}", schema });
    const { answer } = await model.ask({ id: 1 }, 0, { signal, addUsage() {} });
    expect(["good", "bad"]).toContain((answer as { label: string }).label);
    await model.close();
  });

  it("tells where an answer ended at its limit", async () => {
    const generation = { maxNewTokens: 1 };
    const model = await modelOf({ model: fake(), prompt: "{{ id }}", generation });
    let isCut = false;
    const noteCut = () => {
      isCut = true;
    };
    await model.ask({ id: 1 }, 0, { signal, addUsage() {}, noteCut });
    expect(isCut).toBe(true);
    await model.close();
  });

  it("sends rows with dates and long numbers to an engine that reads rows", async () => {
    const sent: string[] = [];
    const engine = {
      name: "predictor",
      capacity: 1,
      choices: {},
      async infer(request: InferenceRequest) {
        sent.push(JSON.stringify(request.row));
        const answers = [{ text: "", value: 1, finishReason: "stop", tokens: 0 }];
        return { answers, usage: noUsage, seconds: 0 };
      },
      async close() {},
    } as unknown as Engine;
    const job = jobWith({ model: { engine: "predictor", module: "/model.mjs" } });
    if (job.model.engine !== "pipeline") throw new Error("it is a pipeline");
    const opener = rowModelOpener(job, 3, async () => engine, localInputs);
    const model = await opener(job.model.stages[0] as never, engineContext());
    const row = { id: 2n ** 60n, at: new Date(0), large: 1e20 };
    const answered = await model.ask(row as never, 0, { signal, addUsage() {} });
    expect(answered).toEqual({ ...row, answer: 1 });
    const text = '{"id":1152921504606846976,"at":"1970-01-01T00:00:00.000Z","large":1e+20}';
    expect(sent).toEqual([text]);
  });

  it("names a field that a row lacks", async () => {
    const model = await modelOf({ model: fake(), prompt: "{{ word }}" });
    const error = await rejectionOf(model.ask({ id: 1 }, 0, { signal, addUsage() {} }));
    expect(error).toMatchObject({ code: "VARIABLE_MISSING" });
    await model.close();
  });
});

describe("assertStagesAskable", () => {
  it("refuses prompts that are not valid, and stages without any", () => {
    expect(() => assertStagesAskable(jobWith({ model: fake(), prompt: "{{ a" }))).toThrow("Jinja");
    const none = jobWith({ model: fake() });
    expect(() => assertStagesAskable(none)).toThrow("give exactly one of prompt and prompts");
  });

  it("refuses what a pipeline has no place for", () => {
    const stage = { model: fake(), prompt: "p" };
    const prompted = jobWith(stage, { prompt: "p" });
    expect(() => assertStagesAskable(prompted)).toThrow("give them to stages of kind generate");
    const included = jobWith(stage, { output: { include: ["usage"] } });
    expect(() => assertStagesAskable(included)).toThrow("output.include");
  });
});
