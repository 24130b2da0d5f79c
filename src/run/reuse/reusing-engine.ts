import { withDeltas } from "../../engines/deltas.ts";
import type { Engine } from "../../engines/engine.ts";
import { describeEngine } from "../../engines/registry.ts";
import { WrappedEngine } from "../../engines/wrapped-engine.ts";
import { untilAborted } from "../../foundation/clock.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { messageText } from "../../foundation/exact-json.ts";
import type { InferenceRequest, InferenceResponse, OnDelta } from "../../foundation/inference.ts";
import { canonicalJson, type Json } from "../../foundation/json.ts";
import type { Logger } from "../../foundation/logger.ts";
import type { Random } from "../../foundation/random.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import { answersOf } from "../job/kinds.ts";
import type { JobSpec } from "../job/schema.ts";
import { isBatchInput } from "../openai-batch/batch-lines.ts";
import { parametersOf } from "../plan/job-prompts.ts";
import type { AnswerCache } from "./answer-cache.ts";
import { areRepeatable, isRepeatable, requestKey } from "./request-key.ts";

/** Answers that a worker keeps for equal requests. */
const maxReusedAnswers = 50_000;

/** Their characters. */
export const maxReusedAnswerChars = 32 * 1024 * 1024;

export interface ReuseOptions {
  /** Identifies the model, weights included. */
  model: Json;
  /** Answers of earlier runs, if the job names a cache. */
  cache?: AnswerCache;
  /** False for a response with rejected answers, which is not kept. */
  accepts(request: InferenceRequest, response: InferenceResponse): boolean;
  logger: Logger;
  random: Random;
}

/**
 * The same engine, which gets no request twice if the answer is the same. A request equal to one in
 * flight waits for it, and one equal to an answered one gets that answer; the cache's answers are
 * used too. Such responses are `reused`. If a request fails that others wait for, each of them is
 * sent. A rejected response is not kept: another try, in this run or a later one, must reach the
 * engine.
 */
export function reusing(engine: Engine, options: ReuseOptions): Engine {
  return new ReusingEngine(engine, options);
}

class ReusingEngine extends WrappedEngine {
  readonly #options: ReuseOptions;
  readonly #leaders = new Map<string, Promise<InferenceResponse>>();
  /** Answers by key, the least recently used first. */
  readonly #answers = new Map<string, InferenceResponse>();
  #answerChars = 0;
  readonly #model: string;
  #hasCacheFailed = false;

  constructor(engine: Engine, options: ReuseOptions) {
    super(engine);
    this.#model = canonicalJson(options.model);
    this.#options = options;
  }

  infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    if (!isRepeatable(request)) return this.inner.infer(request, signal, onDelta);
    if (onDelta === undefined) return this.#inferOnce(request, signal);
    return withDeltas(onDelta, signal, (tell) => this.#inferOnce(request, signal, tell));
  }

  async #inferOnce(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    const key = requestKey(this.#model, request);
    const known = this.#known(key);
    if (known) return reused(known);
    const leader = this.#leaders.get(key);
    if (leader) return this.#follow(leader, request, signal, onDelta);
    const leading = this.#lead(key, request, signal, onDelta);
    this.#leaders.set(key, leading);
    try {
      return await leading;
    } finally {
      this.#leaders.delete(key);
    }
  }

  override async close(): Promise<void> {
    await super.close();
    const { cache, random } = this.#options;
    if (!this.#hasCacheFailed) await cache?.trim(random.next()).catch(this.#giveUpCache);
  }

  async #lead(
    key: string,
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta: OnDelta | undefined,
  ): Promise<InferenceResponse> {
    const { accepts } = this.#options;
    const cached = await this.#cached((cache) => cache.find(key));
    if (cached && accepts(request, cached)) {
      this.#remember(key, cached);
      return reused(cached);
    }
    if (cached) await this.#cached((cache) => cache.drop(key));
    signal.throwIfAborted();
    const response = await this.inner.infer(request, signal, onDelta);
    if (!accepts(request, response)) return response;
    this.#remember(key, response);
    await this.#cached((cache) => cache.add(key, response));
    return response;
  }

  async #follow(
    leader: Promise<InferenceResponse>,
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta: OnDelta | undefined,
  ): Promise<InferenceResponse> {
    const led = leader.catch(() => undefined);
    const response = await untilAborted(led, signal);
    if (response) return reused(response);
    signal.throwIfAborted();
    return this.inner.infer(request, signal, onDelta);
  }

  #known(key: string): InferenceResponse | undefined {
    const response = this.#answers.get(key);
    if (response === undefined) return undefined;
    this.#answers.delete(key);
    this.#answers.set(key, response);
    return response;
  }

  #remember(key: string, response: InferenceResponse): void {
    this.#answers.set(key, response);
    this.#answerChars += charsOf(response);
    for (const [oldest, answer] of this.#answers) {
      const fits =
        this.#answers.size <= maxReusedAnswers && this.#answerChars <= maxReusedAnswerChars;
      if (fits) return;
      this.#answers.delete(oldest);
      this.#answerChars -= charsOf(answer);
    }
  }

  /** A cache is not essential: if it fails, it is no longer used, with one warning. */
  async #cached<T>(use: (cache: AnswerCache) => Promise<T>): Promise<T | undefined> {
    const { cache } = this.#options;
    if (cache === undefined || this.#hasCacheFailed) return undefined;
    return use(cache).catch(this.#giveUpCache);
  }

  readonly #giveUpCache = (error: unknown): undefined => {
    if (!this.#hasCacheFailed) {
      this.#options.logger.log(
        "warn",
        `continues without the cache: ${asSluiceError(error).message}`,
      );
    }
    this.#hasCacheFailed = true;
  };
}

function reused(response: InferenceResponse): InferenceResponse {
  return { ...response, seconds: 0, reused: true };
}

function charsOf({ answers, rows }: InferenceResponse): number {
  const ofRows = rows === undefined ? 0 : messageText(rows).length;
  return answers.reduce((sum, { text, value }) => {
    return sum + text.length + (value === undefined ? 0 : messageText(value).length);
  }, ofRows);
}

interface ReuseContext {
  logger: Logger;
  random: Random;
  cache?: AnswerCache;
}

/**
 * The engine of a job, which gets no equal request twice unless the job says `reuse: off`. An
 * engine that reads the row's index is wrapped only for a cache.
 */
export function withReuse(
  engine: Engine,
  promptSet: PromptSet,
  job: JobSpec,
  context: ReuseContext,
): Engine {
  const isOfIndex = describeEngine(job.model).readsIndex === true;
  // Two equal commands are meant to run twice, and each has effects.
  if (job.model.engine === "program") return engine;
  if (job.reuse === "off" || (context.cache === undefined && isOfIndex)) return engine;
  return reusing(engine, {
    model: modelIdentity(job, engine),
    accepts: (request, response) => accepts(promptSet, request, response),
    ...context,
  });
}

/** Notices about a job's `cache`: when no answer is taken from it or kept. */
export function reuseNotices(job: JobSpec): string[] {
  if (job.cache === undefined) return [];
  if (job.reuse === "off") return ["cache is not used, because reuse is off"];
  if (isBatchInput(job) || areRepeatable(parametersOf(job, 0))) return [];
  return [
    "cache is not used: answers are sampled and generation.seed is not set, " +
      "so each request gets its own",
  ];
}

function accepts(
  promptSet: PromptSet,
  request: InferenceRequest,
  response: InferenceResponse,
): boolean {
  try {
    promptSet.accept(request, response);
    return true;
  } catch {
    return false;
  }
}

function modelIdentity(job: JobSpec, { choices }: Engine): Json {
  const address = addressIdentity(describeEngine(job.model).servers?.(job.model) ?? []);
  const weights = choices?.weights ?? choices?.modelFile ?? null;
  return { model: answersOf(job).model ?? null, address, weights };
}

/** One server by its address; the order of several does not matter. */
function addressIdentity(servers: readonly string[]): Json {
  const [only = null, ...others] = servers.toSorted();
  return others.length === 0 ? only : [only, ...others];
}
