import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { resolveModel } from "../../src/engines/models/models.ts";
import { openedEngine } from "../../src/engines/opened-engine.ts";
import { openOpenvino } from "../../src/engines/openvino/engine.ts";
import { openvinoModel } from "../../src/engines/openvino/options.ts";
import { locateEnginePackage } from "../../src/engines/packages/packages.ts";
import type { SluiceError } from "../../src/foundation/errors.ts";
import type {
  InferenceRequest,
  SamplingParameters,
  SlottedLine,
} from "../../src/foundation/inference.ts";
import { candidateSpans } from "../../src/foundation/spans.ts";
import { compileStructuredForm } from "../../src/prompt/structure/structured-form.ts";
import { engineConformance } from "../conformance/engine-conformance.ts";
import { engineContext, whyOpenvinoIsMissing } from "./llama-files.ts";
import { complete } from "./llama-requests.ts";
import { chatsWithTools } from "./tool-chats.ts";

/** Has the library write a GGUF file's model in its own form beside it. */
const savesFolder = `
import sys, openvino_genai
gguf, saves = sys.argv[1], {"enable_save_ov_model": True}
openvino_genai.Tokenizer(gguf, **saves)
openvino_genai.ContinuousBatchingPipeline(gguf, openvino_genai.SchedulerConfig(), "CPU", saves)
`;

/** Rows that are asked alone and together; more in `npm run test:long`. */
const rows = Number(process.env.TEST_SLUICE_EQUALITY_ROWS ?? 5);

const missing = await whyOpenvinoIsMissing();
const never = new AbortController().signal;
const open = (options: object = {}) =>
  openOpenvino(
    openvinoModel.parse({
      engine: "openvino",
      name: "smollm2-135m-instruct",
      contextTokens: 256,
      sequences: 4,
      cacheGib: 1,
      // As in `llama-files.ts`.
      threads: 1,
      ...options,
    }),
    engineContext,
  );
const chat = (content: string, parameters: Partial<SamplingParameters> = {}) => ({
  ...complete("", parameters),
  prompt: undefined,
  messages: [{ role: "user" as const, content }],
});

/** One engine for all tests of a suite that does not care: loading takes seconds. */
let shared: Promise<Engine> | undefined;
const engineOfAll = () => {
  shared ??= open();
  return shared;
};
/** Another one, from a folder in OpenVINO's form, for tests that end its process or close it. */
let exact: Promise<Engine> | undefined;
const exactEngine = () => {
  exact ??= savedFolder().then((name) => open({ name, precision: "exact" }));
  return exact;
};

let folder: string | undefined;
async function savedFolder(): Promise<string> {
  folder = await mkdtemp(join(tmpdir(), "sluice-openvino-"));
  const { path } = await resolveModel("smollm2-135m-instruct", engineContext, { download: false });
  const { directory, python } = await locateEnginePackage("openvino", engineContext, {
    install: false,
  });
  await symlink(path, join(folder, "model.gguf"));
  const saved = spawnSync(python!, ["-c", savesFolder, join(folder, "model.gguf")], {
    env: { ...process.env, PYTHONPATH: directory },
    encoding: "utf8",
  });
  expect(saved.status, saved.stderr).toBe(0);
  return folder;
}

describe("engine openvino", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  const ask = async (request: InferenceRequest) => (await engineOfAll()).infer(request, never);
  const text = async (request: InferenceRequest) => (await ask(request)).answers[0]!.text;

  it("says what it chose", async () => {
    const engine = await engineOfAll();
    expect(engine.choices).toMatchObject({ device: "CPU", sequences: 4, contextTokens: 256 });
    expect(engine.capacity).toBe(8);
  });

  it("answers the same from a folder in OpenVINO's form, and names what one lacks", async () => {
    const request = chat("What is the capital of France?", { maxNewTokens: 8 });
    const { answers } = await (await exactEngine()).infer(request, never);
    expect(answers[0]!.text).toBe(await text(request));
    const lacking = await mkdtemp(join(tmpdir(), "sluice-openvino-"));
    const names = (await readdir(folder!)).filter((name) => name !== "openvino_tokenizer.xml");
    for (const name of names) await symlink(join(folder!, name), join(lacking, name));
    await expect(open({ name: lacking })).rejects.toThrow(/holds no openvino_tokenizer\.xml/);
    await rm(lacking, { recursive: true });
  });

  it("says that a device is missing, not that the model is broken", async (context) => {
    const error = await open({ device: "NPU" }).then(
      () => context.skip(true, "this machine has an NPU"),
      (thrown: SluiceError) => thrown,
    );
    expect(error).toMatchObject({ code: "ENGINE_START_FAILED" });
    expect((error as SluiceError).message).toContain("finds no NPU on this machine, only CPU");
    expect((error as SluiceError).hint).toContain("leave model.device out");
  });

  it("answers a conversation through the model's own template", async () => {
    const response = await ask(chat("Hello!", { maxNewTokens: 60 }));
    expect(response.answers[0]).toMatchObject({ finishReason: "stop" });
    expect(response.answers[0]?.text).toMatch(/^Hello!/);
    expect(response.usage.completionTokens).toBe(response.answers[0]?.tokens);
  });

  it("reads a special token in a row as text: it costs more than one token", async () => {
    const tokens = async (content: string) =>
      (await ask(chat(content, { maxNewTokens: 1 }))).usage.promptTokens;
    expect((await tokens("a<|im_end|>")) - (await tokens("a"))).toBeGreaterThan(2);
  });

  it("makes of words ahead the tokens that it asks with", async () => {
    const engine = await engineOfAll();
    const request = chat("Name a colour. <|im_start|>");
    const { prompts } = await engine.tokenize!([request]);
    const ahead = await ask({ ...request, tokens: prompts[0]! });
    const plain = await ask(request);
    expect(ahead.usage.promptTokens).toBe(plain.usage.promptTokens);
    expect(ahead.answers).toEqual(plain.answers);
  });

  it("follows the seed", async () => {
    const sampled = (seed: number) =>
      text(complete("Once upon a time", { temperature: 1, seed, maxNewTokens: 8 }));
    expect(await sampled(1)).toBe(await sampled(1));
    expect(new Set([await sampled(1), await sampled(2), await sampled(3)]).size).toBeGreaterThan(1);
  });

  it("ends before a stop text, within a token too, and at the limit of tokens", async () => {
    const whole = await text(complete("One two three four"));
    const stop = whole.slice(6, 10);
    const cut = await ask(complete("One two three four", { stop: [stop] }));
    expect(cut.answers[0]).toMatchObject({
      text: whole.slice(0, whole.indexOf(stop)),
      finishReason: "stop",
    });
    const short = await ask(complete("One two", { maxNewTokens: 3 }));
    expect(short.answers[0]).toMatchObject({ finishReason: "length", tokens: 3 });
    const none = await ask(complete("One two", { maxNewTokens: 0 }));
    expect(none.answers[0]).toMatchObject({ text: "", finishReason: "length", tokens: 0 });
  });

  it("fails or cuts a prompt that is too long, as asked", async () => {
    const long = `${"word ".repeat(300)}end`;
    await expect(ask(complete(long))).rejects.toMatchObject({
      code: "PROMPT_TOO_LONG",
      message: expect.stringMatching(/30\d tokens of prompt.*context of 256/),
    });
    for (const onTooLong of ["truncate-left", "truncate-right"] as const) {
      const request = complete(long, {}, { onTooLong });
      const { usage } = await ask(request);
      expect(usage.promptTokens).toBe(256 - request.parameters.maxNewTokens);
    }
  });

  it("fills slots with words of the row only", async () => {
    const sentences = [
      "Bake at 375 degrees F (190 degrees C) for 10½ minutes.",
      "Whisk the eggs – gently.",
      "Dump <|im_end|> 🍞 into the pan for 5 min.",
      "Dump é into the pan for 5 min.",
      "",
    ];
    const slot = { orElse: "none", maxWords: 5 };
    const filled = async (source: string, seed: number) => {
      const slottedLine: SlottedLine = {
        line: "temperature={t}, duration={d}",
        slots: [
          { ...slot, name: "t", source },
          { ...slot, name: "d", source, pattern: "\\d.*" },
        ],
      };
      const sampled = { temperature: 1.5, seed, maxNewTokens: 60 };
      const request = complete(`Sentence: ${source}\nAnswer:`, sampled);
      const answer = await text({ ...request, slottedLine });
      const [, t, d] = /^temperature=(.*), duration=(.*)$/u.exec(answer) ?? [];
      expect(["none", ...candidateSpans(slottedLine.slots[0]!)], answer).toContain(t);
      expect(["none", ...candidateSpans(slottedLine.slots[1]!)], answer).toContain(d);
    };
    // From these seeds and a flat list of spans, the library also wrote "5 min for 5 min".
    const seeds = [11, 13];
    await Promise.all(sentences.flatMap((source) => seeds.map((seed) => filled(source, seed))));
  });

  it("searches with beams, and gives the best first", async () => {
    const beams = { numBeams: 3, numReturnSequences: 2, maxNewTokens: 8 };
    const { answers } = await ask(complete("The capital of France is", beams));
    expect(answers).toHaveLength(2);
    expect(answers[0]!.text).toContain("Paris");
    expect(answers[1]!.text).not.toBe(answers[0]!.text);
  });

  it("ends a form where it ends, and refuses it in a beam search", async () => {
    const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    const { structure } = compileStructuredForm(schema, "schema").ask([]);
    const request = (parameters: Partial<SamplingParameters>) => ({
      ...complete("A number as JSON: ", { maxNewTokens: 40, ...parameters }),
      ...(structure && { structure }),
    });
    expect(JSON.parse(await text(request({ ignoreEos: true }))).n).toBeTypeOf("number");
    await expect(ask(request({ numBeams: 3 }))).rejects.toMatchObject({
      ...{ code: "PARAMETER_UNSUPPORTED", place: { field: "generation.numBeams" } },
    });
  });

  it("gives nearly always the same alone and in a batch where it is exact", async () => {
    const engine = await exactEngine();
    const say = async (at: number) => {
      const story = `On day ${at} we saw ${at} boats. `.repeat(1 + (at % 5));
      const request = complete(`${story}On day ${at + 1}`, { maxNewTokens: 12 });
      return (await engine.infer(request, never)).answers[0]!.text;
    };
    const numbers = Array.from({ length: rows }, (_, at) => at);
    const together = await Promise.all(numbers.map(say));
    let same = 0;
    for (const at of numbers) if ((await say(at)) === together[at]) same++;
    // Two nearly equal tokens may still change places: 2 of 200 long answers did.
    expect(same).toBeGreaterThanOrEqual(numbers.length - 1);
  });

  it("refuses tools by name where the model's own template has none", async () => {
    const model = openvinoModel.parse({ engine: "openvino", name: "model" });
    const calling = openedEngine(await engineOfAll(), { callsTools: true });
    await expect(chatsWithTools(model)(calling, {})).rejects.toMatchObject({
      ...{ code: "PARAMETER_UNSUPPORTED", place: { field: "tools" } },
      message: expect.stringContaining("the model's chat template has no tools"),
    });
  });

  it("rejects what it held when its host is killed, then works again", async () => {
    const engine = await exactEngine();
    const begun = Promise.withResolvers<void>();
    const asked = [1, 2, 3].map((at) => {
      const request = complete(`Number ${at}`, { maxNewTokens: 200, ignoreEos: true });
      return engine.infer(request, never, () => begun.resolve());
    });
    const results = Promise.allSettled(asked);
    await begun.promise;
    process.kill(engine.choices?.pid as number, "SIGKILL");
    for (const result of await results) {
      expect(result).toMatchObject({ status: "rejected", reason: { code: "ENGINE_DIED" } });
    }
    const { answers } = await engine.infer(complete("One two three"), never);
    expect(answers[0]!.text.length).toBeGreaterThan(0);
  });
});

if (missing === undefined) {
  const opened = async ({ mustClose }: { mustClose: boolean }) => ({
    engine: mustClose ? await exactEngine() : keptOpen(await engineOfAll()),
    isDeterministic: false,
    tellsDeltas: true,
    enforcesSlots: true,
    answersSeveral: true,
    failing: { request: complete("word ".repeat(300)), code: "PROMPT_TOO_LONG" as const },
  });
  engineConformance("openvino", opened);
}

afterAll(async () => {
  for (const engine of [shared, exact]) await (await engine)?.close();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

/** The same engine, which the suite does not close. */
function keptOpen(engine: Engine): Engine {
  const infer: Engine["infer"] = (...given) => engine.infer(...given);
  return { name: engine.name, capacity: engine.capacity, infer, close: async () => {} };
}
