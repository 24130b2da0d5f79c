import { SluiceError } from "../../foundation/errors.ts";
import type { Answer, AnswerDelta, Usage } from "../../foundation/inference.ts";
import { type BatchLimits, type BatchShare, planPass } from "./batch-plan.ts";
import type { Decoding } from "./decoding.ts";
import type { BatchItem, LoadedLlama } from "./loaded-llama.ts";
import type { NativeSampler } from "./node-llama-cpp.ts";
import { chooseSlot } from "./slot-choice.ts";

/** What the scheduler needs of the model. */
export type SequenceRunner = Pick<
  LoadedLlama,
  "decode" | "sample" | "logProbabilities" | "createSampler" | "truncate" | "copy"
>;

/** One answer with its cost. */
export interface Generated {
  answer: Answer;
  usage: Usage;
}

/** Called with new text of an answer. */
export type OnText = (delta: Omit<AnswerDelta, "choice">) => void;

interface Waiting {
  decoding: Decoding;
  signal: AbortSignal;
  onText: OnText | undefined;
  resolve: (generated: Generated) => void;
  reject: (reason: unknown) => void;
}

interface Live extends Waiting {
  sampler: NativeSampler;
  /** Tokens to compute before the next choice. */
  pending: number[];
  reused: number;
}

interface Slot {
  id: number;
  /** Tokens whose state the sequence holds. */
  cached: number[];
  live?: Live;
}

/**
 * Computes many answers at once in the parallel sequences of one context: each pass takes the
 * waiting tokens of every live sequence, then one token is chosen for each sequence without waiting
 * tokens.
 *
 * node-llama-cpp has its own scheduler; it starts the next pass before the last sampled sequence is
 * back, and passes sequences on in the order of their end, which llama.cpp then splits into several
 * passes. It was measured to give a third of the tokens per second at 16 sequences.
 */
export class Scheduler {
  readonly #runner: SequenceRunner;
  readonly #slots: Slot[];
  readonly #limits: BatchLimits;
  readonly #waiting: Waiting[] = [];
  #running: Promise<void> | undefined;
  #isClosed = false;
  /** A fault of the model, which fails all requests. */
  #fault: { error: unknown } | undefined;

  constructor(
    runner: SequenceRunner,
    { sequences, ...limits }: { sequences: number } & BatchLimits,
  ) {
    this.#runner = runner;
    this.#slots = Array.from({ length: sequences }, (_, id) => ({ id, cached: [] }));
    this.#limits = limits;
  }

  /**
   * Answers one prompt. Rejects with the signal's reason when it is aborted, and with the fault of
   * the model, before or after it.
   */
  run(decoding: Decoding, signal: AbortSignal, onText?: OnText): Promise<Generated> {
    return new Promise((resolve, reject) => {
      if (this.#fault) return reject(this.#fault.error);
      this.#waiting.push({ decoding, signal, onText, resolve, reject });
      this.#start();
    });
  }

  /** Takes no more requests and waits for the pass in work. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#running;
  }

  #start(): void {
    this.#running ??= this.#loop().finally(() => {
      this.#running = undefined;
      // Called between the loop's last check and its end.
      if (this.#waiting.length > 0 && !this.#isClosed) this.#start();
    });
  }

  async #loop(): Promise<void> {
    // Requests that arrive together are assigned together.
    await Promise.resolve();
    try {
      while (!this.#isClosed) {
        this.#dropAborted();
        await this.#admit();
        const live = this.#slots.filter((slot) => slot.live !== undefined);
        if (live.length === 0 && this.#waiting.length === 0) return;
        if (live.length > 0) await this.#pass(live);
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.#isClosed = true;
    this.#fault = { error };
    for (const { reject } of this.#waiting.splice(0)) reject(error);
    for (const slot of this.#slots) {
      slot.live?.reject(error);
      this.#release(slot);
    }
  }

  #dropAborted(): void {
    for (const slot of this.#slots) {
      const { live } = slot;
      if (live?.signal.aborted !== true) continue;
      this.#release(slot);
      live.reject(live.signal.reason);
    }
    for (let at = this.#waiting.length - 1; at >= 0; at--) {
      if (!this.#waiting[at]!.signal.aborted) continue;
      const [dropped] = this.#waiting.splice(at, 1);
      dropped!.reject(dropped!.signal.reason);
    }
  }

  async #admit(): Promise<void> {
    for (let at = 0; at < this.#waiting.length; ) {
      const request = this.#waiting[at]!;
      const prompt = request.decoding.prompt;
      if (this.#slots.every((slot) => slot.live !== undefined)) return;
      const choice = chooseSlot(
        this.#slots.map((slot) => ({
          id: slot.id,
          isFree: slot.live === undefined,
          cached: slot.cached,
          planned: slot.live?.decoding.prompt ?? [],
        })),
        prompt,
        this.#limits.blockTokens,
      );
      if (choice === undefined) {
        at++;
        continue;
      }
      await this.#place(request, choice);
      this.#waiting.splice(at, 1);
    }
  }

  async #place(
    request: Waiting,
    choice: { slot: number; copyFrom?: number; reused: number },
  ): Promise<void> {
    const slot = this.#slots[choice.slot]!;
    if (choice.copyFrom !== undefined) {
      await this.#runner.copy(choice.copyFrom, slot.id);
      slot.cached = this.#slots[choice.copyFrom]!.cached.slice();
    }
    let reused = choice.reused;
    if (slot.cached.length > reused && !this.#runner.truncate(slot.id, reused)) reused = 0;
    slot.cached.length = Math.min(slot.cached.length, reused);
    const { prompt } = request.decoding;
    let forced: readonly number[];
    try {
      forced = request.decoding.begin();
    } catch (error) {
      request.reject(error);
      return;
    }
    const pending = [...prompt.slice(reused), ...forced];
    slot.live = { ...request, sampler: this.#runner.createSampler(), pending, reused };
    tell(request);
    if (request.decoding.isDone) this.#finish(slot, slot.live);
  }

  async #pass(live: readonly Slot[]): Promise<void> {
    const { blocks, rest } = planPass(
      live.map(({ id, cached, live }) => ({
        sequence: id,
        start: cached.length,
        pendingTokens: live!.pending.length,
      })),
      this.#limits,
    );
    if (blocks.length > 0) await this.#compute(blocks);
    if (rest.length > 0) await this.#compute(rest);
  }

  async #compute(shares: readonly BatchShare[]): Promise<void> {
    const items = shares.map(({ sequence, tokens }): BatchItem => {
      const { pending } = this.#slots[sequence]!.live!;
      const start = this.#slots[sequence]!.cached.length;
      const wantsOutput = tokens === pending.length;
      return { sequence, start, tokens: pending.slice(0, tokens), wantsOutput };
    });
    const outputs = await this.#runner.decode(items);
    const choices: Promise<void>[] = [];
    for (const [at, item] of items.entries()) {
      const slot = this.#slots[item.sequence]!;
      slot.cached.push(...item.tokens);
      slot.live!.pending.splice(0, item.tokens.length);
      const output = outputs[at];
      if (output !== undefined) choices.push(this.#choose(slot, slot.live!, output));
    }
    // Samplers of the others are in use until the last one has chosen.
    await Promise.allSettled(choices);
    await Promise.all(choices);
  }

  async #choose(slot: Slot, live: Live, output: number): Promise<void> {
    try {
      const token = await this.#sampled(live, output);
      const { logprobs } = live.decoding;
      const probabilities =
        logprobs > 0 ? await this.#runner.logProbabilities(output, token, logprobs) : undefined;
      live.pending.push(...live.decoding.take(token, probabilities));
    } catch (error) {
      // Any other error is of the model, and ends all its requests.
      if (!(error instanceof SluiceError)) throw error;
      this.#release(slot);
      live.reject(error);
      return;
    }
    tell(live);
    if (live.decoding.isDone) this.#finish(slot, live);
  }

  async #sampled({ decoding, sampler }: Live, output: number): Promise<number> {
    sampler.applyConfig(decoding.config());
    let token = await this.#runner.sample(output, sampler);
    if (decoding.refuses(token)) {
      sampler.applyConfig(decoding.config());
      token = await this.#runner.sample(output, sampler);
    }
    if (token < 0) throw new Error("llama.cpp chose no token");
    return token;
  }

  #finish(slot: Slot, live: Live): void {
    this.#release(slot);
    const { decoding, reused } = live;
    const usage = {
      promptTokens: decoding.prompt.length,
      cachedTokens: reused,
      completionTokens: decoding.tokens.length,
    };
    live.resolve({ answer: decoding.answer(), usage });
  }

  /** Frees the slot; its sequence keeps its state, for prompts with a common beginning. */
  #release(slot: Slot): void {
    slot.live?.sampler.dispose();
    slot.live = undefined;
  }
}

function tell({ decoding, signal, onText }: Waiting): void {
  if (onText === undefined || signal.aborted) return;
  const delta = decoding.takeDelta();
  if (delta) onText(delta);
}
