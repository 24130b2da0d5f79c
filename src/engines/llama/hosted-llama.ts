import { availableParallelism, freemem } from "node:os";
import { basename } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { eitherOf, type Grammar } from "../../foundation/grammar.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import {
  type InferenceRequest,
  type InferenceResponse,
  type OnDelta,
  type PromptTokens,
  requestSeed,
  type SlottedLine,
} from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import type { PromptWords, TokenizedPrompts } from "../engine.ts";
import type { Choices, HostedEngine } from "../host/protocol.ts";
import { lineGrammar } from "../line-grammar.ts";
import { llamaVersion } from "../packages/lock.ts";
import { callsGrammar } from "../weights/call-formats.ts";
import { ChatTemplate, type PromptPiece, spaceAfter } from "../weights/chat-template.ts";
import { contextShape } from "../weights/context-shape.ts";
import { checkGgufFile } from "../weights/gguf-file.ts";
import type { GgufMetadata } from "../weights/gguf-metadata.ts";
import { type PromptTokenizer, requestTokens, tokenParts } from "../weights/prompt-tokens.ts";
import { type AskedCalls, askedCalls, callReadings, isOfTools } from "../weights/tool-calling.ts";
import { CallSpeller, formatBytes } from "./call-speller.ts";
import { Decoding, type DecodingOptions } from "./decoding.ts";
import { GrammarAutomaton } from "./grammar-automaton.ts";
import { type LoadedLlama, type LoraAdapter, loadLlama } from "./loaded-llama.ts";
import { type OnText, Scheduler } from "./scheduler.ts";
import { Speller } from "./speller.ts";
import { Vocabulary } from "./vocabulary.ts";

/** The model as the worker describes it; everything except the paths may be left to the host. */
export interface HostedLlamaOptions {
  /** node-llama-cpp's main module. */
  modulePath: string;
  modelPath: string;
  /** The weights in the file, for the log and the manifest. */
  weights?: Readonly<Record<string, Json>>;
  sequences?: number;
  contextTokens?: number;
  threads?: number;
  batchTokens?: number;
  gpuLayers?: number;
  /** Default: `exact`. */
  precision?: "fast" | "exact";
  lora?: LoraAdapter[];
  /** Makes only vectors, in this number of contexts side by side. */
  embeddingContexts?: number;
}

/** Automata to keep, and states of one: schemas that copy from each row have one each. */
const maxAutomata = 32;
const maxAutomatonStates = 20_000;

/** Held requests for each one in work, so that a freed sequence never waits for the worker. */
const requestsPerSequence = 2;

/**
 * Loads a GGUF model in this process, which is an engine host.
 *
 * @param onErrorLine receives errors of the native library as it writes them.
 * @throws SluiceError with the fault of the model or the library.
 */
export async function openHostedLlama(
  options: Json,
  onErrorLine: (line: string) => void = () => {},
): Promise<HostedEngine> {
  const asked = options as unknown as HostedLlamaOptions;
  await checkGgufFile(asked.modelPath);
  const loaded = await loadLlama({
    modulePath: asked.modulePath,
    modelPath: asked.modelPath,
    ...(asked.gpuLayers !== undefined && { gpuLayers: asked.gpuLayers }),
    adapters: asked.lora ?? [],
    isExact: asked.precision !== "fast",
    embeddingContexts: asked.embeddingContexts,
    onErrorLine,
    shape: ({ model, gpu, mathCores }) =>
      contextShape(asked.embeddingContexts === undefined ? asked : { ...asked, sequences: 1 }, {
        metadata: model.fileInfo.metadata,
        trainedTokens: model.trainContextSize,
        freeBytes: gpu === false ? freemem() : undefined,
        cores: Math.max(1, Math.min(availableParallelism(), mathCores)),
      }),
  });
  return new HostedLlama(asked, loaded);
}

class HostedLlama implements HostedEngine {
  readonly name: string;
  readonly capacity: number;
  readonly concurrency: number;
  readonly choices: Choices;
  readonly #loaded: LoadedLlama;
  readonly #vocabulary: Vocabulary;
  readonly #tokenizer: PromptTokenizer;
  readonly #scheduler: Scheduler;
  /** By the text of their grammars: most requests of a job share one. */
  readonly #automata = new Map<string, GrammarAutomaton>();
  readonly #templates: { chat?: ChatTemplate; tools?: ChatTemplate } = {};
  #tokenizerDigest: string | undefined;

  constructor(options: HostedLlamaOptions, loaded: LoadedLlama) {
    const { shape, gpu, gpuLayers } = loaded;
    this.#loaded = loaded;
    this.name = basename(options.modelPath, ".gguf");
    this.concurrency = options.embeddingContexts ?? shape.sequences;
    this.capacity = this.concurrency * requestsPerSequence;
    const modelFile = basename(options.modelPath);
    const { weights } = options;
    this.choices = { ...shape, gpu, gpuLayers, modelFile, ...(weights && { weights }) };
    this.#vocabulary = vocabularyOf(loaded);
    this.#tokenizer = tokenizerOf(loaded);
    const { sequences, batchTokens } = shape;
    const limits = { sequences, batchTokens, blockTokens: loaded.blockTokens };
    this.#scheduler = new Scheduler(loaded, limits);
  }

  async infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    const { tokens, slottedLine } = request;
    // The end of a prompt decides the beginning of its line.
    const calls = askedCalls(request, () => this.#template(true));
    const pieces = tokens && !slottedLine ? [] : this.#piecesOf(request, calls && request.tools);
    const prompt = this.#promptOf(request, tokens ?? tokenParts(pieces, this.#tokenizer));
    if (request.embed === true) return this.#embed(prompt);
    const answers = this.#decodings(request, pieces, prompt, calls).map((decoding, choice) => {
      const onText = onDelta && (((delta) => onDelta({ choice, ...delta })) satisfies OnText);
      return this.#scheduler.run(decoding, signal, onText);
    });
    const generated = await Promise.all(answers);
    return {
      answers: generated.map(({ answer }) => answer),
      usage: {
        promptTokens: prompt.length,
        // The first of several answers computes the prompt, the others take it over.
        cachedTokens: Math.min(...generated.map(({ usage }) => usage.cachedTokens)),
        completionTokens: generated.reduce((sum, { usage }) => sum + usage.completionTokens, 0),
      },
      seconds: 0,
    };
  }

  async tokenize(prompts: readonly PromptWords[]): Promise<TokenizedPrompts> {
    this.#tokenizerDigest ??= tokenizerDigest(this.#loaded.model.fileInfo.metadata);
    const tokens = prompts.map((words) => this.#tokensOf(words));
    return { tokenizer: this.#tokenizerDigest, prompts: tokens };
  }

  #tokensOf(words: PromptWords): PromptTokens | null {
    try {
      return tokenParts(this.#piecesOf(words), this.#tokenizer);
    } catch (thrown) {
      if (thrown instanceof SluiceError) return null;
      throw thrown;
    }
  }

  #promptOf(request: InferenceRequest, tokens: PromptTokens): number[] {
    return requestTokens(request, tokens, {
      contextTokens: this.#loaded.shape.contextTokens,
      firstToken: this.#tokenizer.firstToken,
      bosToken: this.#loaded.model.tokens.bos ?? undefined,
    });
  }

  /** One for each requested answer; each has its own seed. */
  #decodings(
    request: InferenceRequest,
    pieces: readonly PromptPiece[],
    prompt: readonly number[],
    calls: AskedCalls | undefined,
  ): Decoding[] {
    const { parameters, slottedLine, structure } = request;
    const { maxLength = Number.POSITIVE_INFINITY, numReturnSequences = 1 } = parameters;
    const seed = requestSeed(request);
    const room = Math.min(this.#loaded.shape.contextTokens, maxLength) - prompt.length;
    const maxNewTokens = Math.min(parameters.maxNewTokens, room);
    const calling = calls && this.#calling(calls, request, prompt);
    return Array.from({ length: numReturnSequences }, (_, at) => {
      const options: DecodingOptions = {
        prompt,
        parameters: { ...parameters, maxNewTokens, seed: seed + at },
        vocabulary: this.#vocabulary,
      };
      if (slottedLine) options.speller = this.#lineSpeller(slottedLine, pieces);
      else if (calling) Object.assign(options, calling(at));
      else if (structure) options.speller = this.#grammarSpeller(structure.grammar);
      return new Decoding(options);
    });
  }

  #lineSpeller(line: SlottedLine, pieces: readonly PromptPiece[]): Speller {
    // Each line copies from its own text: keeping its automaton would be useless.
    const automaton = new GrammarAutomaton(lineGrammar(line, spaceAfter(pieces)));
    return this.#spellerOf(automaton, this.#vocabulary.lineEnds());
  }

  #grammarSpeller(grammar: Grammar): Speller {
    return this.#spellerOf(this.#automatonOf(grammar), [...this.#vocabulary.ends()]);
  }

  #automatonOf(grammar: Grammar): GrammarAutomaton {
    const key = JSON.stringify(grammar);
    let automaton = this.#automata.get(key);
    if (automaton === undefined || automaton.size > maxAutomatonStates) {
      automaton = new GrammarAutomaton(grammar);
      if (this.#automata.size >= maxAutomata) this.#automata.clear();
      this.#automata.set(key, automaton);
    }
    return automaton;
  }

  /** What the decodings of a request need to call tools, by the place of the answer. */
  #calling(
    asked: AskedCalls,
    request: InferenceRequest,
    prompt: readonly number[],
  ): (answer: number) => Pick<DecodingOptions, "speller" | "calls"> {
    const { structure, parameters } = request;
    const { format, argumentGrammars, isForced, isParallel } = asked;
    const vocabulary = this.#vocabulary;
    const tokenizeFormat = (text: string) => this.#tokenizer.tokenize(text, true, false);
    const bytes = formatBytes(format, vocabulary, tokenizeFormat);
    const grammar = callsGrammar(format, argumentGrammars, isParallel);
    const automaton = this.#automatonOf(grammar);
    const answerGrammar =
      structure && (format.open === "" ? eitherOf(structure.grammar, grammar) : structure.grammar);
    const readingOf = callReadings(asked, request, prompt);
    return (answer) => ({
      speller: new CallSpeller({
        ...{ format, vocabulary, formatBytes: bytes, tokenizeFormat, isForced, isParallel },
        callsSpeller: () => this.#spellerOf(automaton, []),
        ...(answerGrammar && { answer: this.#grammarSpeller(answerGrammar) }),
        ignoresEnds: parameters.ignoreEos === true,
      }),
      calls: { ...readingOf(answer), formatBytes: bytes },
    });
  }

  #spellerOf(automaton: GrammarAutomaton, ends: readonly number[]): Speller {
    return new Speller(
      automaton,
      this.#vocabulary,
      (text) => this.#tokenizer.tokenize(text, false, false),
      ends,
    );
  }

  async #embed(prompt: readonly number[]): Promise<InferenceResponse> {
    const value = await this.#loaded.embed(prompt);
    return {
      answers: [{ text: "", value, finishReason: "stop", tokens: 0 }],
      usage: { promptTokens: prompt.length, cachedTokens: 0, completionTokens: 0 },
      seconds: 0,
    };
  }

  async close(): Promise<void> {
    await this.#scheduler.close();
    await this.#loaded.dispose();
  }

  #piecesOf({ messages, prompt }: PromptWords, tools?: readonly JsonObject[]): PromptPiece[] {
    if (messages === undefined) return [{ kind: "content", text: prompt ?? "" }];
    const hasTools = tools !== undefined || messages.some(isOfTools);
    return this.#template(hasTools).render(messages, tools);
  }

  #template(hasTools: boolean): ChatTemplate {
    const name = hasTools ? "tools" : "chat";
    this.#templates[name] ??= templateOf(this.#loaded, this.#vocabulary, hasTools);
    return this.#templates[name];
  }
}

/** Some files have a template of its own for conversations with tools, named `tool_use`. */
function templateOf(
  { model }: LoadedLlama,
  vocabulary: Vocabulary,
  hasTools: boolean,
): ChatTemplate {
  const { chat_template: found, ...others } = model.fileInfo.metadata.tokenizer ?? {};
  const chat = typeof found === "string" ? found : undefined;
  const named = typeof found === "object" ? found.tool_use : others["chat_template.tool_use"];
  const source = hasTools ? (named ?? chat) : (chat ?? named);
  if (source === undefined) {
    throw new SluiceError("MODEL_TEMPLATE_UNUSABLE", "the model has none: it is not a chat model");
  }
  const { bosString, eosString } = model.tokens;
  return new ChatTemplate(source, {
    bos: bosString ?? "",
    eos: eosString ?? "",
    special: () => vocabulary.specialTexts(),
  });
}

/** Covers all that decides the tokens: the model file's tokenizer, and the library's version. */
function tokenizerDigest({ tokenizer = {} }: GgufMetadata): string {
  return sha256Hex(JSON.stringify([llamaVersion, tokenizer]));
}

function tokenizerOf({ model }: LoadedLlama): PromptTokenizer {
  const { bos, shouldPrependBosToken } = model.tokens;
  return {
    firstToken: shouldPrependBosToken && bos !== null ? bos : undefined,
    tokenize: (text, withSpecialTokens, isFirst) =>
      model.tokenize(text, withSpecialTokens, isFirst ? undefined : "trimLeadingSpace"),
  };
}

function vocabularyOf({ model }: LoadedLlama): Vocabulary {
  let size = 0;
  for (const token of model.iterateAllTokens()) size = Math.max(size, token + 1);
  return new Vocabulary({
    size,
    kind: model.vocabularyType,
    text: (token) => model._model.getTokenString(token),
    attributes: (token) => model._model.getTokenAttributes(token),
    isEnd: (token) => model.isEogToken(token),
  });
}
