import { describe, expect, it } from "vitest";
import { type JobInput, jobSchema } from "../../../src/run/job/schema.ts";
import { assertAskable, promptSetOf } from "../../../src/run/plan/job-prompts.ts";
import { errorOf } from "../run-fixture.ts";

const least = { input: "rows.jsonl", model: { engine: "fake" }, prompt: "Say {{ text }}" } as const;
const jobOf = (changes: Partial<JobInput>) => jobSchema.parse({ ...least, ...changes });
const refusal = (changes: Partial<JobInput>) =>
  errorOf((async () => assertAskable(jobOf(changes)))());

describe("promptSetOf", () => {
  it("asks with the run's seed and with what the job names", () => {
    const job = jobOf({ generation: { topK: 0, seed: 1 } });
    const [request] = promptSetOf(job, 5).requests({ text: "x" }, 0);
    expect(request!.parameters).toMatchObject({ seed: 5, topK: 0, explicit: ["topK", "seed"] });
  });
});

describe("promptSetOf a job with keys for all prompts", () => {
  const requestsOf = (changes: Partial<JobInput>, row = { text: "x", response: "y" }) =>
    promptSetOf(jobOf(changes), 1).requests(row, 0);

  it("bounds prompt and answer by sequenceLen, beside maxNewTokens", () => {
    const [request] = requestsOf({ sequenceLen: 90, generation: { maxNewTokens: 40 } });
    expect(request!.parameters).toMatchObject({ maxLength: 90, maxNewTokens: 40 });
    const [bounded] = requestsOf({ sequenceLen: 90, generation: { maxLength: 50 } });
    expect(bounded!.parameters.maxLength).toBe(50);
  });

  it("empties truncateFeatures in every prompt, besides those of its own", () => {
    const text = "{{ text }}-{{ response }}";
    const prompts = { a: text, b: { prompt: text, truncateFeatures: ["text"] } };
    const asked = requestsOf({ truncateFeatures: ["response"], prompt: undefined, prompts });
    expect(asked.map(({ messages }) => messages![0]!.content)).toEqual(["x-", "-"]);
  });
});

describe("assertAskable", () => {
  it("names sequenceLen where an engine cannot count the prompt's tokens", async () => {
    const model = { engine: "openai", name: "m" } as const;
    const { code, message } = await refusal({ model, sequenceLen: 90 });
    expect([code, message]).toEqual([
      "UNSUPPORTED",
      expect.stringMatching(/cannot do sequenceLen$/),
    ]);
  });

  it.each<[string, Partial<JobInput>]>([
    ["prompts", { report: "axolotl", prompt: undefined, prompts: { a: "x" } }],
    ["prompt.forEach", { report: "axolotl", prompt: { prompt: "x", forEach: "list" } }],
    ["output.format", { report: "axolotl", output: { format: "openai-batch" } }],
    [
      "preparedDir",
      { preparedDir: "/p", prompt: undefined, input: { path: "in.jsonl", format: "openai-batch" } },
    ],
  ])("refuses %s where it has no place", async (field, changes) => {
    const error = await refusal(changes);
    expect([error.code, error.place.field]).toEqual(["JOB_INVALID", field]);
  });

  it.each([
    [
      "generation.logprobs",
      { generation: { logprobs: 2 }, output: { path: "out", include: ["logprobs"] } },
    ],
    ["api: embedding", { prompt: { prompt: "{{ text }}", api: "embedding" } }],
  ] as const)(
    "refuses %s to engine openvino, before anything is planned",
    async (name, changes) => {
      const model = { engine: "openvino", name: "m" } as const;
      const { code, message } = await refusal({ model, ...(changes as object) });
      expect([code, message]).toEqual([
        "UNSUPPORTED",
        expect.stringContaining(`cannot do ${name}`),
      ]);
    },
  );

  it("refuses by name what the engine would have to drop, with what to do instead", async () => {
    const model = { engine: "openai", name: "m" } as const;
    const generation = { topK: 3, maxLength: 50, numBeams: 1 };
    const error = await refusal({ model, generation });
    expect(error.code).toBe("UNSUPPORTED");
    expect(error.message).toContain("cannot do generation.topK, generation.maxLength");
    expect(error.hint).toContain("give maxNewTokens");
    expect((await refusal({ generation: { numBeams: 2 } })).message).toContain("numBeams");
  });

  it("refuses images in prompts of an engine that takes none", async () => {
    const prompt = { prompt: "What is on it?", image: "{{ path }}" };
    const error = await refusal({ prompt });
    expect(error.code).toBe("UNSUPPORTED");
    expect(error.hint).toContain("with engine openai");
    const model = { engine: "openai", name: "m" } as const;
    expect(() => assertAskable(jobOf({ prompt, model }))).not.toThrow();
  });

  it("wants log-probabilities asked for and kept, or neither", async () => {
    const lost = await refusal({ generation: { logprobs: 2 } });
    expect(lost.hint).toBe("add output.include: [logprobs]");
    const missing = await refusal({ output: { include: ["logprobs"] } });
    expect(missing.place).toMatchObject({ field: "output.include" });
    const both = { generation: { logprobs: 2 }, output: { include: ["logprobs" as const] } };
    expect(() => assertAskable(jobOf(both))).not.toThrow();
    expect(() => assertAskable(jobOf({ generation: { logprobs: 0 } }))).not.toThrow();
  });
});
