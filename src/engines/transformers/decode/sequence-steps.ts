import type { LibraryTensor, Model, RuntimeTensor } from "../transformers-js.ts";
import { KeptCache } from "./kept-cache.ts";
import type { Logits, Steps } from "./steps.ts";
import { lastOfEach, type MakeTensor, type Padded, pickRows, tokenColumn } from "./tensors.ts";

/** Steps of a model whose decoder uses an encoder's output for the row. */
export class SequenceSteps implements Steps {
  readonly #model: Model;
  readonly #makeTensor: MakeTensor;
  readonly #startToken: number;
  readonly #cache: KeptCache;
  #rows: number;
  #encoded: LibraryTensor;
  #mask: LibraryTensor;

  private constructor(model: Model, startToken: number, encoded: Encoded, makeTensor: MakeTensor) {
    this.#model = model;
    this.#makeTensor = makeTensor;
    this.#startToken = startToken;
    this.#encoded = encoded.hidden;
    this.#mask = encoded.mask;
    this.#rows = encoded.mask.dims[0]!;
    this.#cache = new KeptCache(this.#rows, makeTensor);
  }

  /** Encodes a batch, padded on the right. */
  static async encode(
    model: Model,
    { ids, mask }: Padded,
    startToken: number,
    makeTensor: MakeTensor,
  ): Promise<SequenceSteps> {
    const session = model.sessions.model!;
    const given: Record<string, LibraryTensor> = { input_ids: ids, attention_mask: mask };
    const feeds = Object.fromEntries(
      session.inputNames.flatMap((name) => {
        const tensor = given[name];
        return tensor === undefined ? [] : [[name, tensor.ort_tensor] as const];
      }),
    );
    const outputs: Record<string, RuntimeTensor> = await session.run(feeds);
    const { type, data, dims } = outputs.last_hidden_state!;
    const encoded = { hidden: makeTensor(type, data, dims), mask };
    return new SequenceSteps(model, startToken, encoded, makeTensor);
  }

  begin(): Promise<Logits[]> {
    return this.#step(new Array(this.#rows).fill(this.#startToken));
  }

  next(parents: readonly number[], tokens: readonly number[]): Promise<Logits[]> {
    const moved = this.#cache.follow(parents);
    if (moved !== undefined) {
      this.#encoded = pickRows(this.#encoded, moved, this.#rows, this.#makeTensor);
      this.#mask = pickRows(this.#mask, moved, this.#rows, this.#makeTensor);
    }
    this.#rows = parents.length;
    return this.#step(tokens);
  }

  async #step(tokens: readonly number[]): Promise<Logits[]> {
    const past = this.#cache.tensors;
    const outputs = await this.#model.forward({
      encoder_outputs: this.#encoded,
      attention_mask: this.#mask,
      decoder_input_ids: tokenColumn(tokens, this.#makeTensor),
      ...(past && { past_key_values: past }),
    });
    this.#cache.keep(outputs);
    return lastOfEach(outputs.logits!);
  }
}

interface Encoded {
  hidden: LibraryTensor;
  mask: LibraryTensor;
}
