import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SpeechTask } from "../../../../src/engines/transformers/tasks/speech-task.ts";
import type { SpeechPipeline } from "../../../../src/engines/transformers/transformers-js.ts";
import { rowRequest, transformersOptions } from "../../../integration/transformers-files.ts";
import { wavBytes } from "../wav-bytes.ts";

const sound = wavBytes([new Array(8000).fill(0.25)], 8000, { code: 1, bits: 16 });
const never = new AbortController().signal;

/** A pipeline that says what it heard. */
function hearing(
  given: object = {},
  modelType = "whisper",
  languages: object = { is_multilingual: true, lang_to_id: { "<|en|>": 1, "<|fr|>": 2 } },
) {
  const heard: { samples: number; options: object }[] = [];
  const pipeline = Object.assign(
    async (samples: Float32Array, options: object) => {
      heard.push({ samples: samples.length, options });
      return { text: " a word ", chunks: [{ timestamp: [0, 1], text: " a word " }] };
    },
    {
      model: { config: { model_type: modelType }, generation_config: languages },
      processor: { feature_extractor: { config: { sampling_rate: 16_000 } } },
      dispose: async () => {},
    },
  ) as unknown as SpeechPipeline;
  const task = "automatic-speech-recognition";
  const options = transformersOptions({ task, name: "a/b", ...given });
  return { heard, task: new SpeechTask(pipeline, options) };
}

describe("SpeechTask", () => {
  const data = `data:audio/wav;base64,${sound.toString("base64")}`;

  it("hears a recording of the row at the model's own rate", async () => {
    const { heard, task } = hearing({ srcLang: "french" });
    const { item } = task.itemOf(rowRequest(0, { audio: data }));
    const [result] = await task.run([item], never);
    expect(result).toMatchObject({ answers: [{ text: "a word" }] });
    expect(heard).toEqual([
      { samples: 16_000, options: { language: "french", task: "transcribe" } },
    ]);
  });

  it("reads a file, and hears a long one in pieces", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-wav-"));
    try {
      const path = join(folder, "long.wav");
      const long = wavBytes([new Array(31_000).fill(0)], 1000, { code: 1, bits: 16 });
      await writeFile(path, long);
      const { heard, task } = hearing({ audioColumn: "file" }, "wav2vec2");
      const { item } = task.itemOf(rowRequest(0, { file: path }));
      await task.run([item], never);
      expect(heard[0]?.options).toEqual({ chunk_length_s: 30, stride_length_s: 5 });
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("gives pieces with their times where they are wanted", async () => {
    const { task } = hearing({ timestamps: true });
    const [result] = await task.run([{ audio: data }], never);
    expect(result).toMatchObject({
      answers: [{ value: { text: "a word", pieces: [{ start: 0, end: 1, text: "a word" }] } }],
    });
  });

  it("gives a recording that it cannot read its own error", async () => {
    const { task } = hearing();
    const results = await task.run([{ audio: "/none/there.wav" }, { audio: data }], never);
    expect(results[0]).toMatchObject({ code: "AUDIO_INVALID" });
    expect(results[1]).toMatchObject({ answers: [{ text: "a word" }] });
  });

  it("takes the file that a prompt names before the row's column", () => {
    const { task } = hearing();
    const request = { ...rowRequest(0, { audio: data }), file: "/sounds/one.wav" };
    expect(task.itemOf(request).item).toEqual({ audio: "/sounds/one.wav" });
  });

  it("needs a column with a recording", () => {
    const { task } = hearing();
    expect(() => task.itemOf(rowRequest(0, { text: "no sound" }))).toThrow(
      expect.objectContaining({ code: "COLUMN_INVALID" }),
    );
  });

  it("translates from the language of the request, with times of segments and words", async () => {
    const { heard, task } = hearing({ srcLang: "en" });
    const transcription = { language: "fr", translate: true, times: ["segment", "word"] as const };
    const { item } = task.itemOf({ ...rowRequest(0, { audio: data }), transcription });
    const [result] = await task.run([item], never);
    const told = { language: "fr", task: "translate" };
    expect(heard.map(({ options }) => options)).toEqual([
      { ...told, return_timestamps: "word" },
      { ...told, return_timestamps: true },
    ]);
    const value = {
      ...{ text: "a word", language: "fr", duration: 1 },
      segments: [{ id: 0, start: 0, end: 1, text: " a word " }],
      words: [{ word: "a word", start: 0, end: 1 }],
    };
    expect(result).toMatchObject({ answers: [{ text: "a word", value }] });
  });

  it("refuses by name what its model cannot be told", async () => {
    const asked = (given: object, ...of: Parameters<typeof hearing>) => {
      const { task } = hearing(...of);
      const request = { ...rowRequest(0, { audio: data }), transcription: given };
      return Promise.resolve()
        .then(() => task.run([task.itemOf(request).item], never))
        .then(
          ([result]) => Promise.reject(result),
          (error: unknown) => Promise.reject(error),
        )
        .catch((error: unknown) => error);
    };
    const english = [{}, "whisper", { is_multilingual: false }] as const;
    const found = [
      asked({ prompt: "Sluice" }),
      asked({ language: "de" }),
      asked({ language: "de" }, ...english),
      asked({ translate: true }, ...english),
      asked({ language: "en" }, {}, "moonshine"),
      asked({ times: ["segment"] }, {}, "moonshine"),
    ];
    const unsupported = (field: string) => ({ code: "PARAMETER_UNSUPPORTED", place: { field } });
    expect(await Promise.all(found)).toMatchObject([
      unsupported("prompt"),
      { code: "LANGUAGE_UNKNOWN", place: { field: "language" } },
      ...["language", "model", "language", "response_format"].map(unsupported),
    ]);
    const sampled = rowRequest(0, { audio: data }, { temperature: 0.5, explicit: ["temperature"] });
    expect(() => hearing().task.itemOf(sampled)).toThrow(
      expect.objectContaining(unsupported("temperature")),
    );
  });
});
