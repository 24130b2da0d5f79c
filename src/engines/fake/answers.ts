import { SluiceError } from "../../foundation/errors.ts";
import {
  type Answer,
  type AnswerDelta,
  type InferenceRequest,
  type InferenceResponse,
  noOrigin,
  type SamplingParameters,
  type SlottedLine,
  type TokenLogprob,
  type ToolCall,
} from "../../foundation/inference.ts";
import { isJsonObject, type JsonObject } from "../../foundation/json.ts";
import { mix32, seededRandom } from "../../foundation/random.ts";
import { candidateSpans } from "../../foundation/spans.ts";
import { grammarText } from "./grammar-text.ts";

const words = (
  "amber anchor apple arrow autumn basil beacon birch breeze bridge candle canyon cedar cider " +
  "cloud clover cobalt copper coral cotton crystal dawn delta ember feather fern field flint " +
  "forest garden ginger glacier granite harbor hazel honey island ivory jasmine juniper lantern " +
  "lemon linen maple marble meadow mint moss nectar oak ocean olive opal orchard pebble pepper " +
  "pine plum quartz river saffron silver thyme willow"
).split(" ");

interface Phrase {
  text: string;
  words: number;
}

const phraseCount = 1024;

/** Answers consist of two of these, so that a request costs two look-ups and one concatenation. */
const phrases: readonly Phrase[] = makePhrases();

function makePhrases(): Phrase[] {
  const random = seededRandom(1);
  const word = () => words[Math.floor(random.next() * words.length)]!;
  return Array.from({ length: phraseCount }, () => {
    const chosen = Array.from({ length: 2 + Math.floor(random.next() * 3) }, word);
    return { text: chosen.join(" "), words: chosen.length };
  });
}

/**
 * The answers of the fake engine: they follow only from its seed, the request's seed and the
 * rendered prompt. A token is a word. The first of several answers to a prompt is the answer that a
 * request for one gets.
 */
export class FakeAnswers {
  readonly #seed: number;
  // Results of the last `#read`, kept here because a pair for each request would be garbage.
  #hash!: number;
  #words!: number;

  constructor(seed: number) {
    this.#seed = mix32(seed | 0);
  }

  /** 32 bits that follow from the seed, the request's seed, the prompt and the row. */
  hash(request: InferenceRequest): number {
    this.#read(request);
    return mix32(this.#hash ^ Math.imul((request.origin ?? noOrigin).index + 1, 0x9e3779b1));
  }

  /**
   * The answer to a request, which took `seconds`.
   *
   * @throws SluiceError `FIELD_TYPE` if a slot's source is too long to copy from, `PROMPT_TOO_LONG`
   *   if `maxLength` leaves no token for an answer.
   */
  respond(request: InferenceRequest, seconds: number): InferenceResponse {
    this.#read(request);
    const { numReturnSequences: count = 1, maxLength } = request.parameters;
    const parameters =
      maxLength === undefined ? request.parameters : this.#within(maxLength, request.parameters);
    const answers = [this.#answer(request, parameters, this.#hash)];
    for (let place = 1; place < count; place++) {
      answers.push(this.#answer(request, parameters, mix32(this.#hash + place)));
    }
    let completionTokens = 0;
    for (const answer of answers) completionTokens += answer.tokens;
    const usage = { promptTokens: this.#words, cachedTokens: 0, completionTokens };
    return { answers, usage, seconds };
  }

  /** The answers word by word: the first word of each, then the second of each, and so on. */
  deltas(request: InferenceRequest): AnswerDelta[] {
    const { answers } = this.respond(request, 0);
    const words = answers.map(({ text }) => text.match(/\s*\S+|\s+$/g) ?? []);
    const most = Math.max(...words.map(({ length }) => length));
    const rounds = Array.from({ length: most }, (_, at) =>
      words.map((own, choice) => ({ choice, text: own[at] ?? "", tokens: 1 })),
    );
    return rounds.flat().filter(({ text }) => text !== "");
  }

  #within(maxLength: number, parameters: SamplingParameters): SamplingParameters {
    const left = maxLength - this.#words;
    if (left >= 1) return { ...parameters, maxNewTokens: Math.min(parameters.maxNewTokens, left) };
    const detail = `${this.#words} words, generation.maxLength is ${maxLength}`;
    throw new SluiceError("PROMPT_TOO_LONG", detail);
  }

  #answer(request: InferenceRequest, parameters: SamplingParameters, hash: number): Answer {
    const answer =
      calling(request, hash) ?? formed(request, parameters, hash) ?? plain(parameters, mix32(hash));
    const { logprobs = 0 } = parameters;
    return logprobs === 0 ? answer : { ...answer, logprobs: logprobsOf(answer.text, logprobs) };
  }

  #read(request: InferenceRequest): void {
    this.#hash = mix32(this.#seed ^ mix32(request.parameters.seed | 0));
    this.#words = 0;
    if (request.prompt !== undefined) return this.#readText(request.prompt);
    const messages = request.messages ?? [];
    for (let position = 0; position < messages.length; position++) {
      const message = messages[position]!;
      const { role, content } = message;
      this.#hash = Math.imul(this.#hash ^ role.length, 0x01000193);
      const isWords = typeof content === "string" && role !== "tool" && !("toolCalls" in message);
      this.#readText(isWords ? content : JSON.stringify(message));
    }
  }

  /** FNV-1a (Fowler, Noll, Vo 1991) over UTF-16 units, counting words in the same pass. */
  #readText(text: string): void {
    let hash = this.#hash;
    let count = 0;
    // 1 after a unit of a word, 0 after a blank: without a branch, because word ends are
    // unpredictable.
    let before = 0;
    for (let position = 0; position < text.length; position++) {
      const unit = text.charCodeAt(position);
      hash = Math.imul(hash ^ unit, 0x01000193);
      const isInWord = (32 - unit) >>> 31;
      count += isInWord & (before ^ 1);
      before = isInWord;
    }
    this.#hash = hash;
    this.#words += count;
  }
}

function plain(parameters: SamplingParameters, hash: number): Answer {
  const first = phrases[hash % phraseCount]!;
  const second = phrases[(hash >>> 16) % phraseCount]!;
  const { maxNewTokens, stop, ignoreEos = false } = parameters;
  let tokens = first.words + second.words;
  let text = `${first.text} ${second.text}`;
  for (let next = mix32(hash); ignoreEos && tokens <= maxNewTokens; next = mix32(next)) {
    const phrase = phrases[next % phraseCount]!;
    text += ` ${phrase.text}`;
    tokens += phrase.words;
  }
  if (stop.length > 0) return cut(beforeStop(text, stop), parameters);
  if (tokens > maxNewTokens) return cut(text, parameters);
  return { text, finishReason: "stop", tokens };
}

/** A call of one of the tools, unless calls are forbidden or a tool has just returned. */
function calling(
  { tools = [], toolChoice = "auto", messages }: InferenceRequest,
  hash: number,
): Answer | undefined {
  const isTold = toolChoice === "auto" && messages?.at(-1)?.role === "tool";
  if (tools.length === 0 || toolChoice === "none" || isTold) return undefined;
  const chosen = isJsonObject(toolChoice) ? toolChoice : tools[(hash >>> 8) % tools.length]!;
  const { name = "" } = isJsonObject(chosen.function ?? null)
    ? (chosen.function as JsonObject)
    : {};
  const id = `call_${(hash >>> 0).toString(16)}`;
  const call = { name: String(name), arguments: "{}" };
  const toolCalls: ToolCall[] = [{ id, type: "function", function: call }];
  return { text: "", toolCalls, finishReason: "stop", tokens: 1 };
}

/** An answer in the requested form, if the request has one. */
function formed(
  { slottedLine, structure }: InferenceRequest,
  parameters: SamplingParameters,
  hash: number,
): Answer | undefined {
  if (slottedLine) return slotted(slottedLine, parameters, hash);
  if (structure === undefined) return undefined;
  return cut(grammarText(structure.grammar, seededRandom(hash)), parameters);
}

function slotted(
  { line, slots }: SlottedLine,
  parameters: SamplingParameters,
  hash: number,
): Answer {
  const random = seededRandom(hash);
  const chosen = new Map<string, string>();
  for (const slot of slots) {
    const spans = [slot.orElse, ...candidateSpans(slot)];
    chosen.set(slot.name, spans[Math.floor(random.next() * spans.length)]!);
  }
  const text = line.replace(/\{([^{}]+)\}/g, (whole, name: string) => chosen.get(name) ?? whole);
  return cut(text, parameters);
}

/** Each word is the likeliest, and each alternative half as likely as the one before it. */
function logprobsOf(text: string, count: number): TokenLogprob[] {
  return (text.match(/ ?[^ ]+/g) ?? []).map((token, at) => ({
    token,
    logprob: -Math.LN2,
    alternatives: Array.from({ length: count }, (_, rank) => ({
      token: rank === 0 ? token : ` ${words[(at + rank) % words.length]}`,
      logprob: -(rank + 1) * Math.LN2,
    })),
  }));
}

function beforeStop(text: string, stop: readonly string[]): string {
  const places = stop.map((end) => text.indexOf(end)).filter((place) => place >= 0);
  return places.length === 0 ? text : text.slice(0, Math.min(...places));
}

function cut(text: string, { maxNewTokens }: SamplingParameters): Answer {
  const tokens = text.split(" ").filter((word) => word !== "");
  if (tokens.length <= maxNewTokens) return { text, finishReason: "stop", tokens: tokens.length };
  const kept = tokens.slice(0, maxNewTokens).join(" ");
  return { text: kept, finishReason: "length", tokens: maxNewTokens };
}
