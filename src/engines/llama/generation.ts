import type { Answer, FinishReason, GenerationParameters } from "../../foundation/inference.ts";
import type { LineSpeller } from "./line-speller.ts";
import type { SamplerConfig } from "./node-llama-cpp.ts";
import { hasPenalties, onlyTokens, penaltyConfig, samplerConfig } from "./sampling.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** What a generation is made of. */
export interface GenerationOptions {
  prompt: readonly number[];
  parameters: GenerationParameters;
  vocabulary: Vocabulary;
  /** Where only a slotted line may be written. */
  speller?: LineSpeller;
}

/** One answer in the making: takes tokens one by one and says what to compute next. */
export class Generation {
  readonly prompt: readonly number[];
  readonly #parameters: GenerationParameters;
  readonly #vocabulary: Vocabulary;
  readonly #speller: LineSpeller | undefined;
  readonly #tokens: number[] = [];
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  readonly #longestStop: number;
  #text = "";
  #finishReason: FinishReason | undefined;
  #allowed: Uint32Array | undefined;

  constructor(options: GenerationOptions) {
    this.prompt = options.prompt;
    this.#parameters = options.parameters;
    this.#vocabulary = options.vocabulary;
    this.#speller = options.speller;
    this.#longestStop = Math.max(0, ...options.parameters.stop.map((stop) => stop.length));
  }

  /** True when the answer is complete. */
  get isDone(): boolean {
    return this.#finishReason !== undefined;
  }

  /** The answer's tokens so far. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }

  /** Tokens to compute before the first one is chosen, after the prompt. */
  begin(): readonly number[] {
    if (this.#parameters.maxNewTokens <= 0) this.#finishReason = "length";
    return this.#speller === undefined || this.isDone ? [] : this.#spell();
  }

  /** Takes the chosen token; gives the tokens to compute before the next choice, none when done. */
  take(token: number): readonly number[] {
    if (this.#speller === undefined) {
      if (this.#vocabulary.isEnd(token)) this.#finishReason = "stop";
      else this.#write(token);
      return this.isDone ? [] : [token];
    }
    if (!this.#speller.accept(token)) this.#finishReason = "stop";
    else this.#write(token);
    return this.isDone ? [] : [token, ...this.#spell()];
  }

  /** Settings of the sampler for the next choice. */
  config(): SamplerConfig {
    const config = samplerConfig(this.#parameters);
    // A line that copies is spared the penalties: they would make it shun the very words it copies.
    if (this.#allowed !== undefined) return { ...config, ...onlyTokens(this.#allowed) };
    if (!hasPenalties(this.#parameters)) return config;
    return { ...config, ...penaltyConfig(this.#parameters, [...this.prompt, ...this.#tokens]) };
  }

  answer(): Answer {
    const text = this.#speller === undefined ? this.#text : this.#text.trimStart();
    return { text, finishReason: this.#finishReason ?? "error", tokens: this.#tokens.length };
  }

  /** Writes what must come; leaves the next choice in `#allowed`. */
  #spell(): readonly number[] {
    const written: number[] = [];
    while (!this.isDone) {
      const next = this.#speller!.next();
      if (next.kind === "end") this.#finishReason = "stop";
      else if (next.kind === "choice") {
        this.#allowed = next.tokens;
        break;
      } else {
        for (const token of next.tokens) {
          if (this.isDone) break;
          this.#speller!.accept(token);
          this.#write(token);
          written.push(token);
        }
      }
    }
    return written;
  }

  #write(token: number): void {
    this.#tokens.push(token);
    const seen = this.#text.length;
    this.#text += this.#decoder.decode(this.#vocabulary.bytes(token), { stream: true });
    if (this.#longestStop > 0) this.#cutAtStop(Math.max(0, seen - this.#longestStop));
    if (this.#finishReason === undefined && this.#tokens.length >= this.#parameters.maxNewTokens) {
      this.#finishReason = "length";
    }
  }

  #cutAtStop(from: number): void {
    const places = this.#parameters.stop
      .map((stop) => (stop === "" ? -1 : this.#text.indexOf(stop, from)))
      .filter((place) => place >= 0);
    if (places.length === 0) return;
    this.#text = this.#text.slice(0, Math.min(...places));
    this.#finishReason = "stop";
  }
}
