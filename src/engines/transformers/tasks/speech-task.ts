import { readFile } from "node:fs/promises";
import { SluiceError } from "../../../foundation/errors.ts";
import type {
  InferenceRequest,
  TimedTranscript,
  Transcription,
} from "../../../foundation/inference.ts";
import type { TransformersModelOptions } from "../options.ts";
import type { SpeechPipeline, SpeechResult } from "../transformers-js.ts";
import { readWav, resampled } from "../wav.ts";
import { soundOf } from "./asked-text.ts";
import { type CostedItem, type Task, type TaskResult, valueAnswer } from "./task.ts";

/** Whisper's window; longer recordings are processed in overlapping pieces. */
const pieceSeconds = 30;
const overlapSeconds = 5;

const dataAddress = /^data:[^,]*;base64,/;

/** A recording, and how it becomes text. */
interface Speech extends Transcription {
  audio: string;
}

/** Speech to text, one recording after the other. */
export class SpeechTask implements Task<Speech> {
  readonly #pipeline: SpeechPipeline;
  readonly #options: TransformersModelOptions;

  constructor(pipeline: SpeechPipeline, options: TransformersModelOptions) {
    this.#pipeline = pipeline;
    this.#options = options;
  }

  /** @throws SluiceError `PARAMETER_UNSUPPORTED` for what the model cannot be told. */
  itemOf(request: InferenceRequest): CostedItem<Speech> {
    const { transcription = {}, parameters } = request;
    const { explicit, temperature } = parameters;
    if (transcription.prompt !== undefined) throw this.#refused("prompt", "takes no prompt");
    if (explicit?.includes("temperature") && temperature !== 0) {
      throw this.#refused("temperature", "takes the likeliest words, as with 0");
    }
    if (!this.#isWhisper) {
      const { language, translate, times } = transcription;
      if (language !== undefined) throw this.#refused("language", "has one language");
      if (translate) throw this.#refused("model", "translates nothing");
      if (times) throw this.#refused("response_format", "tells no times");
    }
    return { item: { ...transcription, audio: soundOf(request, this.#options) }, cost: {} };
  }

  async run(
    batch: readonly Speech[],
    signal: AbortSignal,
  ): Promise<readonly (TaskResult | Error)[]> {
    const results: (TaskResult | Error)[] = [];
    for (const speech of batch) {
      signal.throwIfAborted();
      results.push(await this.#transcribe(speech).catch((error: Error) => error));
    }
    return results;
  }

  async close(): Promise<void> {
    await this.#pipeline.dispose();
  }

  get #isWhisper(): boolean {
    return this.#pipeline.model.config.model_type === "whisper";
  }

  async #transcribe({ audio, times, ...asked }: Speech): Promise<TaskResult> {
    const { sampling_rate: rate = 16_000 } = this.#pipeline.processor.feature_extractor.config;
    const samples = resampled(readWav(await bytesOf(audio)), rate);
    const told = this.#languageOf(asked);
    const hear = (timestamps: boolean | "word") => this.#hear(samples, rate, told, timestamps);
    if (times === undefined) return this.#plain(await hear(this.#options.timestamps));
    const duration = samples.length / rate;
    const spans = ({ chunks = [] }: SpeechResult) =>
      chunks.map(({ text, timestamp: [start, end] }) => ({ start, end: end ?? duration, text }));
    const byWords = times.includes("word") ? await hear("word") : undefined;
    const bySegments = times.includes("segment") ? await hear(true) : undefined;
    const { text } = (bySegments ?? byWords)!;
    const value: TimedTranscript = {
      text: text.trim(),
      ...(told.language !== undefined && { language: told.language }),
      duration,
      ...(bySegments && {
        segments: spans(bySegments).map((span, id) => ({ id, ...span })),
      }),
      ...(byWords && {
        words: spans(byWords).map(({ text: word, ...span }) => ({ word: word.trim(), ...span })),
      }),
    };
    return { answers: [{ ...valueAnswer(value), text: value.text }], promptTokens: 0 };
  }

  #plain({ text, chunks }: SpeechResult): TaskResult {
    const spoken = text.trim();
    if (!this.#options.timestamps || chunks === undefined) {
      return { answers: [{ text: spoken, finishReason: "stop", tokens: 0 }], promptTokens: 0 };
    }
    const pieces = chunks.map((piece) => {
      const [start, end] = piece.timestamp;
      return { start, end, text: piece.text.trim() };
    });
    return { answers: [valueAnswer({ text: spoken, pieces })], promptTokens: 0 };
  }

  /**
   * What Whisper is told. Without a language it takes all speech for English.
   *
   * @throws SluiceError `LANGUAGE_UNKNOWN`, `PARAMETER_UNSUPPORTED` if it knows English alone.
   */
  #languageOf({ language: asked, translate = false }: Transcription): Told {
    const language = asked ?? this.#options.srcLang;
    if (!this.#isWhisper || (language === undefined && !translate)) return {};
    const { is_multilingual: isMultilingual, lang_to_id: known = {} } =
      this.#pipeline.model.generation_config;
    if (!isMultilingual) {
      if (translate) throw this.#refused("model", "knows English alone and translates nothing");
      if (/^en(glish)?$/i.test(language ?? "en")) return {};
      throw this.#refused("language", "knows English alone");
    }
    const isCode = asked !== undefined && /^[a-z]{2,3}$/i.test(asked);
    // The library would leave it out.
    if (isCode && !Object.hasOwn(known, `<|${asked.toLowerCase()}|>`)) {
      throw new SluiceError("LANGUAGE_UNKNOWN", asked, { field: "language" });
    }
    return {
      ...(language !== undefined && { language }),
      task: translate ? "translate" : "transcribe",
    };
  }

  async #hear(
    samples: Float32Array,
    rate: number,
    told: Told,
    timestamps: boolean | "word",
  ): Promise<SpeechResult> {
    const isLong = samples.length > pieceSeconds * rate;
    try {
      return await this.#pipeline(samples, {
        ...told,
        ...(timestamps && { return_timestamps: timestamps }),
        ...(isLong && { chunk_length_s: pieceSeconds, stride_length_s: overlapSeconds }),
      });
    } catch (cause) {
      const { message } = cause as Error;
      if (/^Language ".*" is not supported/.test(message)) {
        throw new SluiceError("LANGUAGE_UNKNOWN", told.language ?? "", {
          field: "language",
          cause,
        });
      }
      if (!message.includes("alignment_heads")) throw cause;
      throw this.#refused("timestamp_granularities[]", "tells the times of segments alone");
    }
  }

  #refused(field: string, detail: string): SluiceError {
    const hint = "take it out, or ask a server by engine openai";
    return new SluiceError("PARAMETER_UNSUPPORTED", `the model ${detail}`, { field, hint });
  }
}

/** What Whisper is told of a recording. */
interface Told {
  language?: string;
  task?: "transcribe" | "translate";
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
