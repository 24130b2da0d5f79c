import type { MakeTensor } from "../../../src/engines/transformers/decode/tensors.ts";

/** Makes tensors that only hold what they are given. */
export const makePlainTensor: MakeTensor = (type, data, dims) => {
  const tensor = { type, data, dims };
  const own = { ...tensor, ort_tensor: tensor, to: () => own };
  return own;
};
