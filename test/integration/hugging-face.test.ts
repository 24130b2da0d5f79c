import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, type TestContext } from "vitest";
import { openCommand } from "../../src/engines/command/engine.ts";
import { commandModel } from "../../src/engines/command/options.ts";
import type { Engine } from "../../src/engines/engine.ts";
import {
  greedyParameters,
  type InferenceRequest,
  type InferenceResponse,
  type SamplingParameters,
} from "../../src/foundation/inference.ts";
import { engineContext } from "./llama-files.ts";
import { findTorchPython } from "./torch-python.ts";

const files = join(import.meta.dirname, "../engines/command");
const found = findTorchPython();
const folder = mkdtempSync(join(tmpdir(), "sluice-torch-"));
afterAll(() => rmSync(folder, { recursive: true }));
if (found.missing === undefined) {
  execFileSync(found.python, [join(files, "tiny-models.py"), folder], { stdio: "pipe" });
}

const prompts = ["a", "hello world", "the quick brown fox jumps", " x y z", "once upon a time"];
const plain: SamplingParameters = { ...greedyParameters, maxNewTokens: 10, seed: 5 };

function pythonOf(context: TestContext): string {
  context.skip(found.missing !== undefined, found.missing);
  return found.missing === undefined ? found.python : "";
}

/** What the library answers to each prompt alone, for each set of arguments. */
function reference(python: string, model: string, ...settings: object[]): string[][] {
  const script = join(files, "reference.py");
  const parameters = [join(folder, model), JSON.stringify(settings), JSON.stringify(prompts)];
  const env = { ...process.env, OMP_NUM_THREADS: "1" };
  const output = execFileSync(python, [script, ...parameters], { env, stdio: "pipe" });
  return JSON.parse(output.toString());
}

/** The predictor over a model of the folder. */
function openModel(python: string, model: string, ...others: string[]): Promise<Engine> {
  const args = ["-m", "hugging_face_predictor", "--model", join(folder, model), ...others];
  // Threads of a model this small only wait for one another.
  return openCommand(
    commandModel.parse({ engine: "command", command: python, args, threads: 1 }),
    engineContext,
  );
}

function ask(
  engine: Engine,
  words: Pick<InferenceRequest, "prompt" | "messages">,
  parameters: SamplingParameters,
): Promise<InferenceResponse> {
  const request = { parameters, ...words };
  return engine.infer(request, new AbortController().signal);
}

async function textsOf(engine: Engine, parameters: SamplingParameters): Promise<string[]> {
  const asked = prompts.map((prompt) => ask(engine, { prompt }, parameters));
  return (await Promise.all(asked)).map(({ answers }) => answers[0]!.text);
}

describe.each(["causal", "seq2seq"])("hugging_face_predictor.py, %s", (model) => {
  let engine: Engine;
  beforeAll(async () => {
    if (found.missing === undefined) engine = await openModel(found.python, model);
  });
  afterAll(() => engine?.close());

  it("answers in a batch as the library does to each prompt alone", async (context) => {
    const python = pythonOf(context);
    const length = { max_new_tokens: 10 };
    const [greedy, beams, penalized] = reference(
      python,
      model,
      length,
      { ...length, num_beams: 3 },
      { ...length, repetition_penalty: 1.5 },
    );
    expect(await textsOf(engine, plain)).toEqual(greedy);
    expect(await textsOf(engine, { ...plain, numBeams: 3 })).toEqual(beams);
    expect(await textsOf(engine, { ...plain, repetitionPenalty: 1.5 })).toEqual(penalized);
    expect(beams).not.toEqual(greedy);
    expect(penalized).not.toEqual(greedy);
  });

  it("samples by a seed of each row, whatever is beside it", async (context) => {
    pythonOf(context);
    const warm = { ...plain, temperature: 1, topP: 0.95, topK: 20, minP: 0.01 };
    const together = await textsOf(engine, warm);
    for (const [at, prompt] of prompts.entries()) {
      const { answers } = await ask(engine, { prompt }, warm);
      expect(answers[0]!.text).toBe(together[at]);
    }
    const two = await ask(engine, { prompt: "abc" }, { ...warm, numReturnSequences: 2 });
    const second = await ask(engine, { prompt: "abc" }, { ...warm, seed: warm.seed + 1 });
    expect(two.answers).toHaveLength(2);
    expect(two.answers[1]!.text).toBe(second.answers[0]!.text);
  });

  it("says what it cannot do, and what is too long", async (context) => {
    pythonOf(context);
    const refused = ask(engine, { prompt: "a" }, { ...plain, presencePenalty: 1 });
    await expect(refused).rejects.toMatchObject({ code: "UNSUPPORTED" });
    const long = ask(engine, { prompt: "x".repeat(65) }, plain);
    await expect(long).rejects.toMatchObject({ code: "PROMPT_TOO_LONG" });
    const short = ask(engine, { prompt: "xxx" }, { ...plain, maxLength: 3 });
    await expect(short).rejects.toMatchObject({ code: "PROMPT_TOO_LONG" });
    expect(await textsOf(engine, plain)).toHaveLength(prompts.length);
  });

  it("takes several answers of a beam search, and chats", async (context) => {
    pythonOf(context);
    const several = { ...plain, numBeams: 4, numReturnSequences: 2 };
    const { answers } = await ask(engine, { prompt: "hello" }, several);
    const best = await ask(engine, { prompt: "hello" }, { ...plain, numBeams: 4 });
    expect(answers).toHaveLength(2);
    expect(answers[0]!.text).toBe(best.answers[0]!.text);
    const messages = [{ role: "user", content: "hello" }] as const;
    const chat = await ask(engine, { messages }, plain);
    // An encoder-decoder has no template: the words are all.
    const prompt = model === "causal" ? "user: hello\nassistant: " : "hello";
    expect(chat).toMatchObject({
      ...(await ask(engine, { prompt }, plain)),
      seconds: chat.seconds,
    });
    const { text } = chat.answers[0]!;
    expect(text.length).toBeGreaterThan(0);
    const stop = text.at(-1)!;
    const ended = await ask(engine, { messages }, { ...plain, stop: [stop] });
    expect(ended.answers[0]).toMatchObject({
      ...{ text: text.slice(0, text.indexOf(stop)), finishReason: "stop" },
    });
  });
});

describe("hugging_face_predictor.py", () => {
  it("begins a translation with the target language", async (context) => {
    const python = pythonOf(context);
    const given = ["--target-lang", "yy_BB", "--generate", "no_repeat_ngram_size=2"];
    const engine = await openModel(python, "seq2seq", ...given);
    try {
      const [expected] = reference(python, "seq2seq", {
        ...{ max_new_tokens: 10, forced_bos_token_id: 4, no_repeat_ngram_size: 2 },
        ...{ num_beams: 2, length_penalty: 0.5, early_stopping: true },
      });
      const beams = { numBeams: 2, lengthPenalty: 0.5, earlyStopping: true };
      expect(await textsOf(engine, { ...plain, ...beams })).toEqual(expected);
    } finally {
      await engine.close();
    }
  });
});
