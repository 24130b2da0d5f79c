import { readFile } from "node:fs/promises";
import { SluiceError } from "../../../foundation/errors.ts";
import type { InferenceRequest } from "../../../foundation/inference.ts";
import type { TransformersModelOptions } from "../options.ts";
import type { SpeechPipeline } from "../transformers-js.ts";
import { readWav, resampled } from "../wav.ts";
import { soundOf } from "./asked-text.ts";
import { type CostedItem, type Task, type TaskResult, valueAnswer } from "./task.ts";

/** Whisper's window; longer recordings are processed in overlapping pieces. */
const pieceSeconds = 30;
const overlapSeconds = 5;

const dataAddress = /^data:[^,]*;base64,/;

/** Speech to text, one recording after the other. */
export class SpeechTask implements Task<string> {
  readonly #pipeline: SpeechPipeline;
  readonly #options: TransformersModelOptions;

  constructor(pipeline: SpeechPipeline, options: TransformersModelOptions) {
    this.#pipeline = pipeline;
    this.#options = options;
  }

  itemOf(request: InferenceRequest): CostedItem<string> {
    return { item: soundOf(request, this.#options), cost: {} };
  }

  async run(
    batch: readonly string[],
    signal: AbortSignal,
  ): Promise<readonly (TaskResult | Error)[]> {
    const results: (TaskResult | Error)[] = [];
    for (const audio of batch) {
      signal.throwIfAborted();
      results.push(await this.#transcribe(audio).catch((error: Error) => error));
    }
    return results;
  }

  async close(): Promise<void> {
    await this.#pipeline.dispose();
  }

  async #transcribe(audio: string): Promise<TaskResult> {
    const { sampling_rate: rate = 16_000 } = this.#pipeline.processor.feature_extractor.config;
    const samples = resampled(readWav(await bytesOf(audio)), rate);
    const { srcLang, timestamps } = this.#options;
    const isWhisper = this.#pipeline.model.config.model_type === "whisper";
    const isLong = samples.length > pieceSeconds * rate;
    const { text, chunks } = await this.#pipeline(samples, {
      ...(isWhisper && srcLang !== undefined && { language: srcLang, task: "transcribe" }),
      ...(timestamps && { return_timestamps: true }),
      ...(isLong && { chunk_length_s: pieceSeconds, stride_length_s: overlapSeconds }),
    });
    const spoken = text.trim();
    if (!timestamps || chunks === undefined) {
      return { answers: [{ text: spoken, finishReason: "stop", tokens: 0 }], promptTokens: 0 };
    }
    const pieces = chunks.map((piece) => {
      const [start, end] = piece.timestamp;
      return { start, end, text: piece.text.trim() };
    });
    return { answers: [valueAnswer({ text: spoken, pieces })], promptTokens: 0 };
  }
}

async function bytesOf(audio: string): Promise<Uint8Array> {
  const data = dataAddress.exec(audio);
  if (data) return Buffer.from(audio.slice(data[0].length), "base64");
  try {
    return await readFile(audio);
  } catch (cause) {
    const detail = `${audio}: ${(cause as Error).message}`;
    throw new SluiceError("AUDIO_INVALID", detail, { cause, hint: "check the path" });
  }
}
