import type { AdapterFile, EmbeddingContext, PackageModel } from "./node-llama-cpp.ts";

/** Tokens that the library may add at both ends of a text, and one that it needs free. */
const spareTokens = 3;

interface EmbeddingPoolOptions {
  /** Most contexts; each is made when it is needed. */
  contexts: number;
  /** Tokens of the longest text. */
  contextTokens: number;
  /** Threads of each context. */
  threads: number;
  adapters: AdapterFile[];
}

/**
 * Contexts that each make one vector at a time: the library's addon returns only one for each pass.
 * The next text goes to whichever is free.
 */
export class EmbeddingPool {
  readonly #model: PackageModel;
  readonly #options: EmbeddingPoolOptions;
  readonly #made: Promise<EmbeddingContext>[] = [];
  readonly #free: EmbeddingContext[] = [];
  readonly #waiting: ((context: EmbeddingContext) => void)[] = [];

  constructor(model: PackageModel, options: EmbeddingPoolOptions) {
    this.#model = model;
    this.#options = options;
  }

  /** The vector of a text. */
  async embed(tokens: readonly number[]): Promise<number[]> {
    const context = await this.#take();
    try {
      const { vector } = await context.getEmbeddingFor(tokens);
      return [...vector];
    } finally {
      const next = this.#waiting.shift();
      if (next) next(context);
      else this.#free.push(context);
    }
  }

  async dispose(): Promise<void> {
    for (const context of this.#made) await (await context).dispose();
  }

  #take(): Promise<EmbeddingContext> {
    const free = this.#free.pop();
    if (free) return Promise.resolve(free);
    if (this.#made.length < this.#options.contexts) {
      const made = this.#create();
      this.#made.push(made);
      return made;
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  async #create(): Promise<EmbeddingContext> {
    const { contextTokens, threads, adapters } = this.#options;
    const tokens = contextTokens + spareTokens;
    // A text is pooled from one pass, which must contain all of it.
    const size = { contextSize: tokens, batchSize: tokens, threads };
    const context = await this.#model.createEmbeddingContext(size);
    if (adapters.length > 0) await context._llamaContext._setLoras(adapters);
    return context;
  }
}
