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
function hearing(given: object = {}, modelType = "whisper") {
  const heard: { samples: number; options: object }[] = [];
  const pipeline = Object.assign(
    async (samples: Float32Array, options: object) => {
      heard.push({ samples: samples.length, options });
      return { text: " a word ", chunks: [{ timestamp: [0, 1], text: " a word " }] };
    },
    {
      model: { config: { model_type: modelType } },
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
    const [result] = await task.run([data], never);
    expect(result).toMatchObject({
      answers: [{ value: { text: "a word", pieces: [{ start: 0, end: 1, text: "a word" }] } }],
    });
  });

  it("gives a recording that it cannot read its own error", async () => {
    const { task } = hearing();
    const results = await task.run(["/none/there.wav", data], never);
    expect(results[0]).toMatchObject({ code: "AUDIO_INVALID" });
    expect(results[1]).toMatchObject({ answers: [{ text: "a word" }] });
  });

  it("takes the file that a prompt names before the row's column", () => {
    const { task } = hearing();
    const request = { ...rowRequest(0, { audio: data }), file: "/sounds/one.wav" };
    expect(task.itemOf(request).item).toBe("/sounds/one.wav");
  });

  it("needs a column with a recording", () => {
    const { task } = hearing();
    expect(() => task.itemOf(rowRequest(0, { text: "no sound" }))).toThrow(
      expect.objectContaining({ code: "COLUMN_INVALID" }),
    );
  });
});
