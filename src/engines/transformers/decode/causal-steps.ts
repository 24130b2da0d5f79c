import type { LibraryTensor, Model } from "../transformers-js.ts";
import { KeptCache } from "./kept-cache.ts";
import type { Logits, Steps } from "./steps.ts";
import { lastOfEach, type MakeTensor, type Padded, pickRows, tokenColumn } from "./tensors.ts";

/** Steps of a model that continues from the end of the row, padded on the left. */
export class CausalSteps implements Steps {
  readonly #model: Model;
  readonly #makeTensor: MakeTensor;
  readonly #ids: LibraryTensor;
  readonly #cache: KeptCache;
  #mask: LibraryTensor;
  #rows: number;

  constructor(model: Model, { ids, mask }: Padded, makeTensor: MakeTensor) {
    this.#model = model;
    this.#makeTensor = makeTensor;
    this.#ids = ids;
    this.#mask = mask;
    this.#rows = ids.dims[0]!;
    this.#cache = new KeptCache(this.#rows, makeTensor);
  }

  begin(): Promise<Logits[]> {
    return this.#step(this.#ids);
  }

  next(parents: readonly number[], tokens: readonly number[]): Promise<Logits[]> {
    this.#cache.follow(parents);
    const mask = pickRows(this.#mask, parents, this.#rows, this.#makeTensor);
    this.#rows = parents.length;
    this.#mask = withOnes(mask, this.#makeTensor);
    return this.#step(tokenColumn(tokens, this.#makeTensor));
  }

  async #step(ids: LibraryTensor): Promise<Logits[]> {
    const past = this.#cache.tensors;
    const outputs = await this.#model.forward({
      input_ids: ids,
      attention_mask: this.#mask,
      num_logits_to_keep: this.#makeTensor("int64", BigInt64Array.of(1n), []),
      ...(past && { past_key_values: past }),
    });
    this.#cache.keep(outputs);
    return lastOfEach(outputs.logits!);
  }
}

function withOnes(mask: LibraryTensor, makeTensor: MakeTensor): LibraryTensor {
  const [rows = 0, length = 0] = mask.dims;
  const data = new BigInt64Array(rows * (length + 1)).fill(1n);
  for (let row = 0; row < rows; row++) {
    const own = (mask.data as BigInt64Array).subarray(row * length, (row + 1) * length);
    data.set(own, row * (length + 1));
  }
  return makeTensor("int64", data, [rows, length + 1]);
}
