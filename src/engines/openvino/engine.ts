import { freemem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { packageFile } from "../../entry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { toGbnf } from "../../foundation/grammar.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import {
  type InferenceRequest,
  type InferenceResponse,
  noUsage,
  type OnDelta,
  requestSeed,
  type SamplingParameters,
} from "../../foundation/inference.ts";
import type { JsonObject } from "../../foundation/json.ts";
import type { Engine, EngineContext, PromptWords, TokenizedPrompts } from "../engine.ts";
import { type HostedClient, openHostedEngine } from "../host/client.ts";
import type { TokenRequest } from "../host/protocol.ts";
import { lineGrammar } from "../line-grammar.ts";
import { locateEnginePackage } from "../packages/packages.ts";
import { callingGrammar } from "../weights/calling-grammar.ts";
import { ChatTemplate, type PromptPiece, spaceAfter } from "../weights/chat-template.ts";
import { partsOf, requestTokens } from "../weights/prompt-tokens.ts";
import { type AskedCalls, askedCalls, isOfTools } from "../weights/tool-calling.ts";
import { WrappedEngine } from "../wrapped-engine.ts";
import { CallingAnswers } from "./calling-answers.ts";
import { findWeights, type Weights } from "./model-files.ts";
import type { OpenvinoModelOptions } from "./options.ts";

const defaultSequences = 64;
const defaultBatchTokens = 512;
const defaultContextTokens = 8192;
const bytesPerGib = 1024 ** 3;

/** The host's facts about its model. */
interface ModelFacts {
  chatTemplate: string;
  bos: string;
  eos: string;
  bosToken: number;
  firstToken: number | null;
  specialTexts: readonly string[];
}

/**
 * Opens the engine that computes models with OpenVINO GenAI, in a process of Python. A missing
 * package or model is fetched. See `openHostedEngine` for the effect of that process's death.
 *
 * @throws SluiceError as `locateEnginePackage`, `findWeights` and `openHostedEngine`.
 */
export async function openOpenvino(
  options: OpenvinoModelOptions,
  context: EngineContext,
): Promise<Engine> {
  const located = await locateEnginePackage("openvino", context, { install: true });
  const weights = await findWeights(options.name, context, { download: true });
  const { threads } = options;
  const chosen = {
    device: options.device,
    sequences: options.sequences ?? defaultSequences,
    batchTokens: options.batchTokens ?? defaultBatchTokens,
    cacheGib: options.cacheGib ?? cacheGibOf(freemem()),
    precision: options.precision,
    ...(threads !== undefined && { threads }),
  };
  const contextTokens = options.contextTokens ?? weights.trainedTokens ?? defaultContextTokens;
  const program = join(fileURLToPath(packageFile("python")), "sluice_openvino.py");
  const environment = {
    ...context.environment,
    PYTHONPATH: located.directory,
    PYTHONNOUSERSITE: "1",
    PYTHONUNBUFFERED: "1",
    PYTHONDONTWRITEBYTECODE: "1",
  };
  const client = await openHostedEngine({
    kind: "openvino",
    options: {
      ...chosen,
      modelPath: weights.path,
      choices: { ...chosen, contextTokens, weights: weights.facts, version: located.version },
    },
    context: { ...context, environment, hostCommand: [located.python!, program] },
  });
  return new OpenvinoEngine(client, contextTokens, weights);
}

/** A quarter of the free memory: the model and the input need some too. */
function cacheGibOf(freeBytes: number): number {
  return Math.min(8, Math.max(1, Math.floor(freeBytes / 4 / bytesPerGib)));
}

/** Chat templates, limits and grammars are Sluice's own; the host computes tokens. */
class OpenvinoEngine extends WrappedEngine {
  readonly #client: HostedClient;
  readonly #contextTokens: number;
  readonly #digest: string;
  readonly #toolTemplate: string | undefined;
  readonly #templates = new Map<string, ChatTemplate>();

  constructor(client: HostedClient, contextTokens: number, weights: Weights) {
    super(client);
    this.#client = client;
    this.#contextTokens = contextTokens;
    // The rules of the tokenizer are in the weights' file, or in the folder beside them.
    this.#digest = sha256Hex(JSON.stringify([client.choices?.version, weights.facts]));
    this.#toolTemplate = weights.toolTemplate;
  }

  async infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    const { tokens, slottedLine } = request;
    const { bosToken, firstToken } = this.#model;
    const calls = askedCalls(request, () => this.#template(true));
    // The end of a prompt decides the beginning of its line.
    const pieces = tokens && !slottedLine ? [] : this.#piecesOf(request, calls && request.tools);
    const tokenized = () => this.#client.tokenizePieces([pieces], signal);
    const parts = tokens ?? partsOf(pieces, (await tokenized())[0]!);
    const prompt = requestTokens(request, parts, {
      contextTokens: this.#contextTokens,
      bosToken: bosToken < 0 ? undefined : bosToken,
      firstToken: firstToken ?? undefined,
    });
    const room = Math.min(this.#contextTokens, request.parameters.maxLength ?? this.#contextTokens);
    const maxNewTokens = Math.min(request.parameters.maxNewTokens, room - prompt.length);
    if (maxNewTokens <= 0) return nothingWritten(request, prompt.length);
    const form = calls ? callingForm(request, calls) : formOf(request, pieces);
    const asked = tokenRequest(request, prompt, maxNewTokens, form);
    if (calls === undefined) return this.#client.infer(asked, signal, onDelta);
    const answers = new CallingAnswers(calls, request, prompt);
    const tell = onDelta && answers.deltas(onDelta);
    return answers.response(await this.#client.infer(asked, signal, tell), onDelta);
  }

  override readonly tokenize = async (
    prompts: readonly PromptWords[],
  ): Promise<TokenizedPrompts> => {
    const pieces = prompts.map((words) => {
      try {
        return this.#piecesOf(words);
      } catch {
        return null;
      }
    });
    const tokens = await this.#client.tokenizePieces(pieces.filter((each) => each !== null));
    return {
      tokenizer: this.#digest,
      prompts: pieces.map((each) => each && partsOf(each, tokens.shift()!)),
    };
  };

  get #model(): ModelFacts {
    return this.#client.model as unknown as ModelFacts;
  }

  #piecesOf({ messages, prompt }: PromptWords, tools?: readonly JsonObject[]): PromptPiece[] {
    if (messages === undefined) return [{ kind: "content", text: prompt ?? "" }];
    const hasTools = tools !== undefined || messages.some(isOfTools);
    return this.#template(hasTools).render(messages, tools);
  }

  #template(hasTools: boolean): ChatTemplate {
    const { chatTemplate, bos, eos, specialTexts } = this.#model;
    const source = (hasTools && this.#toolTemplate) || chatTemplate;
    const known = this.#templates.get(source);
    const template = known ?? new ChatTemplate(source, { bos, eos, special: () => specialTexts });
    this.#templates.set(source, template);
    return template;
  }
}

/** The possible texts of an answer, in the notation of the library's XGrammar. */
type Form = Pick<TokenRequest, "grammar" | "mayCall">;

function formOf(
  { slottedLine, structure }: InferenceRequest,
  pieces: readonly PromptPiece[],
): Form {
  if (slottedLine) return { grammar: toGbnf(lineGrammar(slottedLine, spaceAfter(pieces))) };
  return structure ? { grammar: toGbnf(structure.grammar) } : {};
}

function callingForm({ structure, parameters }: InferenceRequest, calls: AskedCalls): Form {
  const { stop, ignoreEos: ignoresEnds } = parameters;
  const options = { structure: structure?.grammar, stop, ...(ignoresEnds && { ignoresEnds }) };
  return { grammar: toGbnf(callingGrammar(calls, options)), mayCall: true };
}

function tokenRequest(
  request: InferenceRequest,
  tokens: readonly number[],
  maxNewTokens: number,
  form: Form,
): TokenRequest {
  const { numBeams = 1, numReturnSequences = 1 } = request.parameters;
  if (form.grammar !== undefined && numBeams > 1) throw formWithBeams();
  const parameters = {
    ...request.parameters,
    // A form itself says where the answer may end.
    ...(form.grammar !== undefined && { ignoreEos: false }),
    ...(form.mayCall && { stop: [] }),
  };
  const { stop } = parameters;
  return {
    tokens,
    generation: generationConfig(parameters, maxNewTokens, requestSeed(request)),
    answers: numReturnSequences,
    ...(stop.length > 0 && { stop }),
    ...form,
  };
}

/** Parameters by the names of the library's `GenerationConfig`, except neutral values. */
function generationConfig(
  parameters: SamplingParameters,
  maxNewTokens: number,
  seed: number,
): JsonObject {
  const { temperature, topP, topK, minP, numBeams = 1, numReturnSequences } = parameters;
  const { repetitionPenalty, presencePenalty, frequencyPenalty, lengthPenalty } = parameters;
  const { earlyStopping = false } = parameters;
  return {
    max_new_tokens: maxNewTokens,
    ...(parameters.ignoreEos && { ignore_eos: true }),
    ...(repetitionPenalty !== 1 && { repetition_penalty: repetitionPenalty }),
    ...(presencePenalty !== 0 && { presence_penalty: presencePenalty }),
    ...(frequencyPenalty !== 0 && { frequency_penalty: frequencyPenalty }),
    ...(numBeams > 1 && {
      num_beams: numBeams,
      num_return_sequences: numReturnSequences ?? 1,
      ...(lengthPenalty !== undefined && { length_penalty: lengthPenalty }),
      stop_criteria: { true: "EARLY", false: "HEURISTIC", never: "NEVER" }[`${earlyStopping}`],
    }),
    ...(temperature > 0 &&
      numBeams === 1 && {
        do_sample: true,
        rng_seed: seed >>> 0,
        temperature,
        ...(topP < 1 && { top_p: topP }),
        ...(topK > 0 && { top_k: topK }),
        ...(minP > 0 && { min_p: minP }),
      }),
  };
}

/** In a beam search, the library ignores the grammar. */
function formWithBeams(): SluiceError {
  const hint = "leave it out: the library keeps no form in a beam search";
  const detail = "generation.numBeams: not with tools, a schema or a line with slots";
  return new SluiceError("PARAMETER_UNSUPPORTED", detail, { field: "generation.numBeams", hint });
}

/** The prompt leaves no room for an answer, and must not be cut. */
function nothingWritten({ parameters }: InferenceRequest, promptTokens: number): InferenceResponse {
  const answer = { text: "", finishReason: "length", tokens: 0 } as const;
  const count = parameters.numReturnSequences ?? 1;
  const answers = Array.from({ length: count }, () => answer);
  return { answers, usage: { ...noUsage, promptTokens }, seconds: 0 };
}
