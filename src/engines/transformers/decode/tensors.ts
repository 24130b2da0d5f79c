import type {
  LibraryTensor,
  RuntimeTensor,
  TensorData,
  TransformersJs,
} from "../transformers-js.ts";

export type MakeTensor = (type: string, data: TensorData, dims: readonly number[]) => LibraryTensor;

export function tensorMaker({ Tensor }: Pick<TransformersJs, "Tensor">): MakeTensor {
  return (type, data, dims) => new Tensor(type, data, dims);
}

/** Token ids of a batch, padded to its longest row, and a mask of the real ones. */
export interface Padded {
  ids: LibraryTensor;
  mask: LibraryTensor;
}

/**
 * A batch of rows of different lengths.
 *
 * @param side of the padding: before the row for models that continue from its end.
 * @example
 * padRows([[5], [6, 7]], 0, "left", makeTensor).ids.data; // [0n, 5n, 6n, 7n]
 */
export function padRows(
  rows: readonly (readonly number[])[],
  padToken: number,
  side: "left" | "right",
  makeTensor: MakeTensor,
): Padded {
  const length = Math.max(...rows.map((row) => row.length));
  const ids = new BigInt64Array(rows.length * length).fill(BigInt(padToken));
  const mask = new BigInt64Array(rows.length * length);
  for (const [at, row] of rows.entries()) {
    const start = at * length + (side === "left" ? length - row.length : 0);
    for (const [place, token] of row.entries()) {
      ids[start + place] = BigInt(token);
      mask[start + place] = 1n;
    }
  }
  const dims = [rows.length, length];
  return { ids: makeTensor("int64", ids, dims), mask: makeTensor("int64", mask, dims) };
}

/** One token for each row. */
export function tokenColumn(tokens: readonly number[], makeTensor: MakeTensor): LibraryTensor {
  return makeTensor("int64", BigInt64Array.from(tokens, BigInt), [tokens.length, 1]);
}

/**
 * Rows of a tensor in another order, some several times or not at all. The first dimension may also
 * be rows × heads.
 *
 * @param rows number of rows in the tensor.
 */
export function pickRows(
  tensor: RuntimeTensor,
  places: readonly number[],
  rows: number,
  makeTensor: MakeTensor,
): LibraryTensor {
  const [first, ...others] = tensor.dims;
  const block = tensor.data.length / rows;
  const Data = tensor.data.constructor as new (length: number) => TensorData;
  const data = new Data(block * places.length);
  for (const [at, place] of places.entries()) {
    const source = tensor.data.subarray(place * block, (place + 1) * block);
    (data as { set(source: TensorData, offset: number): void }).set(source, at * block);
  }
  return makeTensor(tensor.type, data, [(first! / rows) * places.length, ...others]);
}

/** True if picking these places changes nothing. */
export function isIdentity(places: readonly number[], rows: number): boolean {
  return places.length === rows && places.every((place, at) => place === at);
}

/** The last position of each row of `[rows, positions, values]`, each a view into the tensor. */
export function lastOfEach(tensor: LibraryTensor): Float32Array[] {
  const { dims, data } = tensor.type === "float32" ? tensor : tensor.to("float32");
  const [rows = 0, positions = 0, values = 0] = dims;
  return Array.from({ length: rows }, (_, row) => {
    const start = (row * positions + positions - 1) * values;
    return (data as Float32Array).subarray(start, start + values);
  });
}
