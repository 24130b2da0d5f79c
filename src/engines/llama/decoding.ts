import type {
  Answer,
  AnswerDelta,
  FinishReason,
  SamplingParameters,
  TokenLogprob,
} from "../../foundation/inference.ts";
import { AnswerText, type CallReading } from "../weights/answer-text.ts";
import type { LogProbabilities } from "./loaded-llama.ts";
import type { SamplerConfig } from "./node-llama-cpp.ts";
import { hasPenalties, noneOf, penaltyConfig, samplerConfig } from "./sampling.ts";
import type { Spelling } from "./speller.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** The parts of a decoding. */
export interface DecodingOptions {
  prompt: readonly number[];
  parameters: SamplingParameters;
  vocabulary: Vocabulary;
  /** If the answer has a form: it allows only texts of that form. */
  speller?: Spelling;
  /** If the answer may call tools. */
  calls?: CallReading & {
    /** The bytes of special tokens that belong to calls. */
    formatBytes: ReadonlyMap<number, Uint8Array>;
  };
}

/** One answer in the making: takes tokens one by one and says what to compute next. */
export class Decoding {
  readonly prompt: readonly number[];
  readonly #parameters: SamplingParameters;
  readonly #vocabulary: Vocabulary;
  readonly #speller: Spelling | undefined;
  readonly #calls: DecodingOptions["calls"];
  /** Settings of the sampler for the whole answer. */
  readonly #config: SamplerConfig;
  readonly #tokens: number[] = [];
  readonly #logprobs: TokenLogprob[] = [];
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  readonly #text: AnswerText;
  /** How many of the answer's tokens `takeDelta` has returned. */
  #toldTokens = 0;
  #finishReason: FinishReason | undefined;
  /** The speller's choices for the next token, if there are any. */
  #settings: Partial<SamplerConfig> | undefined;

  constructor(options: DecodingOptions) {
    this.prompt = options.prompt;
    this.#parameters = options.parameters;
    this.#vocabulary = options.vocabulary;
    this.#speller = options.speller;
    this.#calls = options.calls;
    this.#config = wholeConfig(options);
    const { parameters, speller, calls } = options;
    const trimsStart = speller !== undefined && calls === undefined;
    this.#text = new AnswerText({ stop: parameters.stop, calls, trimsStart });
  }

  /** True if the answer is complete. */
  get isDone(): boolean {
    return this.#finishReason !== undefined;
  }

  /** The answer's tokens so far. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }

  /** Likeliest tokens to report for each token; 0 = none. */
  get logprobs(): number {
    return this.#parameters.logprobs ?? 0;
  }

  /** Tokens to compute before the first choice, after the prompt. */
  begin(): readonly number[] {
    if (this.#parameters.maxNewTokens <= 0) this.#finishReason = "length";
    return this.#speller === undefined || this.isDone ? [] : this.#spell();
  }

  /** True if the chosen token is not allowed; another must be chosen, with new settings. */
  refuses(token: number): boolean {
    if (this.#speller === undefined || this.#settings !== undefined) return false;
    if (this.#speller.fit(token, this.#left) !== "refused") return false;
    this.#settings = this.#speller.settings();
    return true;
  }

  /** Takes the chosen token; returns those to compute before the next choice, none at the end. */
  take(token: number, probabilities?: LogProbabilities): readonly number[] {
    if (probabilities) this.#report(token, probabilities);
    if (this.#speller === undefined) {
      if (this.#vocabulary.isEnd(token)) this.#finishReason = "stop";
      else this.#write(token);
      return this.isDone ? [] : [token];
    }
    if (this.#speller.fit(token, this.#left) === "no-room") this.#close();
    else if (!this.#speller.accept(token)) this.#finishReason = "stop";
    else this.#write(token);
    return this.isDone ? [] : [token, ...this.#spell()];
  }

  /** Tokens that the answer may still have. */
  get #left(): number {
    return this.#parameters.maxNewTokens - this.#tokens.length;
  }

  /** Settings of the sampler for the next choice. */
  config(): SamplerConfig {
    const config = this.#config;
    // A form is free of penalties: they would suppress the very words that it copies.
    const isForm = this.#speller?.isFree === false;
    if (isForm || !hasPenalties(this.#parameters)) return { ...config, ...this.#settings };
    const penalties = penaltyConfig(this.#parameters, [...this.prompt, ...this.#tokens]);
    return { ...config, ...this.#settings, ...penalties };
  }

  /** The text since the last call, as far as no stop text can remove it; undefined without any. */
  takeDelta(): Omit<AnswerDelta, "choice"> | undefined {
    if (this.isDone) this.#endText();
    const text = this.#text.take();
    if (text === "") return undefined;
    const tokens = this.#tokens.length - this.#toldTokens;
    this.#toldTokens += tokens;
    return { text, tokens };
  }

  #endText(): void {
    this.#text.end();
    if (this.#text.isStopped) this.#finishReason = "stop";
  }

  answer(): Answer {
    this.#endText();
    const { value: text, toolCalls } = this.#text;
    const finishReason = this.#finishReason ?? "error";
    const answer: Answer = { text, finishReason, tokens: this.#tokens.length };
    if (this.logprobs > 0) answer.logprobs = this.#logprobs;
    if (toolCalls.length > 0) answer.toolCalls = toolCalls;
    return answer;
  }

  // Tokens that a line forces are not listed, because there was no choice. An end is not part of
  // the answer.
  #report(token: number, { chosen, top }: LogProbabilities): void {
    if (this.#vocabulary.isEnd(token) && this.#parameters.ignoreEos !== true) return;
    const textOf = (id: number) => this.#vocabulary.text(id);
    this.#logprobs.push({
      token: textOf(token),
      logprob: finite(chosen),
      alternatives: top.map(({ token: id, logProbability }) => ({
        token: textOf(id),
        logprob: finite(logProbability),
      })),
    });
  }

  /** Writes forced text; leaves the next choices in `#settings`. */
  #spell(): readonly number[] {
    const written: number[] = [];
    while (!this.isDone) {
      const next = this.#speller!.next();
      if (next.kind === "end") this.#finishReason = "stop";
      else if (next.kind === "forced") {
        for (const token of next.tokens) {
          if (this.isDone) break;
          this.#speller!.accept(token);
          this.#write(token);
          written.push(token);
        }
      } else {
        this.#settings = next.kind === "choice" ? next.settings : undefined;
        break;
      }
    }
    return written;
  }

  // A complete text is useful, one that was cut in the middle of a form is not.
  #close(): void {
    for (const token of this.#speller!.closing()) this.#write(token);
    this.#finishReason = "length";
  }

  #write(token: number): void {
    this.#tokens.push(token);
    const bytes = this.#calls?.formatBytes.get(token) ?? this.#vocabulary.bytes(token);
    this.#text.push(this.#decoder.decode(bytes, { stream: true }));
    if (this.#text.isStopped) this.#finishReason = "stop";
    if (this.#finishReason === undefined && this.#tokens.length >= this.#parameters.maxNewTokens) {
      this.#finishReason = "length";
    }
  }
}

function wholeConfig({ parameters, vocabulary, speller }: DecodingOptions): SamplerConfig {
  const config = samplerConfig(parameters);
  // A form itself says where the answer may end.
  if (parameters.ignoreEos !== true || speller !== undefined) return config;
  return { ...config, ...noneOf(vocabulary.ends()) };
}

/** JSON has no infinity; an excluded token has no smaller logarithm than this. */
function finite(logprob: number): number {
  return Math.max(logprob, -9999);
}
