import type { Tensors } from "../transformers-js.ts";
import { isIdentity, type MakeTensor, pickRows } from "./tensors.ts";

/** Keys and values of the positions that were computed, as the decoder gives and takes them. */
export class KeptCache {
  readonly #makeTensor: MakeTensor;
  #tensors: Tensors = {};
  #rows: number;
  /** Which row of the batch, as it began, each row comes from. */
  #sources: number[];

  constructor(rows: number, makeTensor: MakeTensor) {
    this.#makeTensor = makeTensor;
    this.#rows = rows;
    this.#sources = Array.from({ length: rows }, (_, row) => row);
  }

  /** As the decoder takes them; undefined before the first step. */
  get tensors(): Tensors | undefined {
    return Object.keys(this.#tensors).length === 0 ? undefined : this.#tensors;
  }

  /** Takes what a step computed. */
  keep(outputs: Tensors): void {
    const isFirst = this.tensors === undefined;
    for (const [name, tensor] of Object.entries(outputs)) {
      if (!name.startsWith("present")) continue;
      // What is kept of the encoder does not change; later steps give nothing in its place.
      if (!isFirst && name.includes(".encoder.")) continue;
      this.#tensors[cacheName(name)] = tensor;
    }
  }

  /**
   * Goes on with other rows.
   *
   * @returns where each comes from among the rows that there were, where what depends on the source
   *   alone has to follow; undefined where it is as it was.
   */
  follow(parents: readonly number[]): readonly number[] | undefined {
    const sources = parents.map((parent) => this.#sources[parent]!);
    const isSame =
      sources.length === this.#sources.length &&
      sources.every((source, at) => source === this.#sources[at]);
    this.#sources = sources;
    if (isIdentity(parents, this.#rows)) return undefined;
    for (const [name, tensor] of Object.entries(this.#tensors)) {
      // Beams of one row share what the encoder made of it.
      if (isSame && name.includes(".encoder.")) continue;
      this.#tensors[name] = pickRows(tensor, parents, this.#rows, this.#makeTensor);
    }
    this.#rows = parents.length;
    return isSame ? undefined : parents;
  }
}

/** The names by which a decoder takes what it gave under another one. */
function cacheName(output: string): string {
  const hybrid = /^present_(ssm|conv|recurrent|compressor|indexer)/;
  if (hybrid.test(output)) return output.replace("present_", "past_");
  return output.replace("present", "past_key_values");
}
