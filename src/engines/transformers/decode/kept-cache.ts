import type { Tensors } from "../transformers-js.ts";
import { isIdentity, type MakeTensor, pickRows } from "./tensors.ts";

/** Keys and values of the computed positions, in the decoder's form. */
export class KeptCache {
  readonly #makeTensor: MakeTensor;
  #tensors: Tensors = {};
  #rows: number;
  /** The row of the initial batch that each row comes from. */
  #sources: number[];

  constructor(rows: number, makeTensor: MakeTensor) {
    this.#makeTensor = makeTensor;
    this.#rows = rows;
    this.#sources = Array.from({ length: rows }, (_, row) => row);
  }

  /** In the decoder's input form; undefined before the first step. */
  get tensors(): Tensors | undefined {
    return Object.keys(this.#tensors).length === 0 ? undefined : this.#tensors;
  }

  /** Takes the results of a step. */
  keep(outputs: Tensors): void {
    const isFirst = this.tensors === undefined;
    for (const [name, tensor] of Object.entries(outputs)) {
      if (!name.startsWith("present")) continue;
      // The encoder's part does not change; later steps return nothing for it.
      if (!isFirst && name.includes(".encoder.")) continue;
      this.#tensors[cacheName(name)] = tensor;
    }
  }

  /**
   * Continues with other rows.
   *
   * @returns the earlier row of each, if data that depends only on the source must follow;
   *   undefined without a change.
   */
  follow(parents: readonly number[]): readonly number[] | undefined {
    const sources = parents.map((parent) => this.#sources[parent]!);
    const isSame =
      sources.length === this.#sources.length &&
      sources.every((source, at) => source === this.#sources[at]);
    this.#sources = sources;
    if (isIdentity(parents, this.#rows)) return undefined;
    for (const [name, tensor] of Object.entries(this.#tensors)) {
      // Beams of one row share the encoder's output.
      if (isSame && name.includes(".encoder.")) continue;
      this.#tensors[name] = pickRows(tensor, parents, this.#rows, this.#makeTensor);
    }
    this.#rows = parents.length;
    return isSame ? undefined : parents;
  }
}

/** The names of a decoder's inputs for outputs with other names. */
function cacheName(output: string): string {
  const hybrid = /^present_(ssm|conv|recurrent|compressor|indexer)/;
  if (hybrid.test(output)) return output.replace("present_", "past_");
  return output.replace("present", "past_key_values");
}
