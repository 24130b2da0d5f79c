/** A tensor of transformers.js: its numbers, row by row. */
export interface Tensor {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: Float32Array | BigInt64Array;
  /** The same for ONNX Runtime. */
  readonly ort_tensor?: unknown;
}

export type MakeTensor = (type: string, data: Tensor["data"], dims: readonly number[]) => Tensor;

type Tensors = Record<string, Tensor>;

/** A model of transformers.js with an encoder and a decoder. */
export interface Model {
  (inputs: Record<string, unknown>): Promise<Tensors>;
  readonly sessions: { model: { run(inputs: Record<string, unknown>): Promise<Tensors> } };
  readonly config: { max_position_embeddings: number };
  readonly generation_config: {
    decoder_start_token_id: number;
    eos_token_id: number;
    early_stopping?: boolean;
  };
}

export interface BeamOptions {
  numBeams: number;
  /** Most tokens of an answer. */
  maxLength: number;
  /** The token that each answer begins with: its language. */
  forcedStart: number;
  padToken: number;
}

/** The beginning of an answer to a row. */
interface Beam {
  row: number;
  tokens: readonly number[];
  /** The logarithm of its likelihood. */
  score: number;
  /** Its place among the beams of the step before. */
  parent: number;
}

/**
 * Finds the likeliest answer to each row of tokens, as `generate` with `num_beams` does in Python.
 * That of transformers.js takes the likeliest next token whatever `num_beams` says, and an answer
 * goes on behind its end until the last one of the batch ends.
 */
export async function searchBeams(
  model: Model,
  makeTensor: MakeTensor,
  rows: readonly (readonly number[])[],
  options: BeamOptions,
): Promise<(readonly number[])[]> {
  const start = model.generation_config.decoder_start_token_id;
  const ended: Beam[][] = rows.map(() => []);
  let beams = rows.map((_, row): Beam => {
    return { row, tokens: [options.forcedStart], score: 0, parent: row };
  });
  let kept = await encoded(model, makeTensor, rows, options.padToken);
  for (let isFirst = true; beams.length > 0; isFirst = false) {
    const parents = beams.map(({ parent }) => parent);
    kept = Object.fromEntries(
      Object.entries(kept).map(([name, tensor]) => [name, picked(tensor, parents, makeTensor)]),
    );
    const { encoder_outputs, attention_mask, ...past } = kept;
    const read = beams.map(({ tokens }) => (isFirst ? [start, ...tokens] : tokens.slice(-1)));
    const outputs = await model({
      ...{ encoder_outputs, attention_mask, decoder_input_ids: padded(read, 0, makeTensor) },
      ...(!isFirst && { past_key_values: past }),
    });
    for (const [name, tensor] of Object.entries(outputs)) {
      // Later steps give nothing for the part of the encoder.
      const isGiven = name.startsWith("present") && (isFirst || !name.includes(".encoder."));
      if (isGiven) kept[name.replace("present", "past_key_values")] = tensor;
    }
    const last = beams.map((beam, place) => ({ ...beam, parent: place }));
    beams = rows.flatMap((_, row) => {
      const own = last.filter((beam) => beam.row === row);
      return own.length === 0 ? [] : continued(own, ended[row]!, outputs.logits!, model, options);
    });
  }
  return ended.map(([best]) => best!.tokens);
}

/** What the decoder reads in each of its steps. */
async function encoded(
  model: Model,
  makeTensor: MakeTensor,
  rows: readonly (readonly number[])[],
  padToken: number,
): Promise<Tensors> {
  const ids = padded(rows, padToken, makeTensor);
  const ones = rows.map((row) => row.map(() => 1));
  const attention_mask = padded(ones, 0, makeTensor);
  const inputs = { input_ids: ids.ort_tensor, attention_mask: attention_mask.ort_tensor };
  const { last_hidden_state } = await model.sessions.model.run(inputs);
  const { type, data, dims } = last_hidden_state!;
  return { encoder_outputs: makeTensor(type, data, dims), attention_mask };
}

/**
 * The beams of a row with one more token each; none if the row is decided.
 *
 * @param ended its answers so far, the best first.
 */
function continued(
  beams: readonly Beam[],
  ended: Beam[],
  logits: Tensor,
  { generation_config: { eos_token_id, early_stopping } }: Model,
  { numBeams, maxLength }: BeamOptions,
): Beam[] {
  const running: Beam[] = [];
  for (const [rank, beam] of likeliest(beams, logits, 2 * numBeams).entries()) {
    const isOpen = beam.tokens.at(-1) !== eos_token_id && beam.tokens.length < maxLength;
    if (isOpen) running.push(beam);
    else if (rank < numBeams) ended.push(beam);
  }
  ended.sort((one, other) => weighed(other) - weighed(one)).splice(numBeams);
  const [best] = running;
  const isDecided =
    ended.length === numBeams &&
    (early_stopping || best === undefined || weighed(best) <= weighed(ended.at(-1)!));
  return isDecided ? [] : running.slice(0, numBeams);
}

/** Longer answers are not worse for their length alone. */
function weighed({ score, tokens }: Beam): number {
  return score / tokens.length;
}

/** The best continuations of beams, the best first. */
function likeliest(beams: readonly Beam[], logits: Tensor, count: number): Beam[] {
  const [, positions = 1, size = 0] = logits.dims;
  const best: { beam: Beam; token: number; score: number }[] = [];
  for (const beam of beams) {
    const end = (beam.parent + 1) * positions * size;
    const own = (logits.data as Float32Array).subarray(end - size, end);
    const highest = own.reduce((most, each) => Math.max(most, each), Number.NEGATIVE_INFINITY);
    const sum = own.reduce((total, each) => total + Math.exp(each - highest), 0);
    const shift = beam.score - highest - Math.log(sum);
    for (let token = 0; token < size; token++) {
      const score = own[token]! + shift;
      if (best.length === count && score <= best.at(-1)!.score) continue;
      const place = best.findIndex((other) => other.score < score);
      best.splice(place < 0 ? best.length : place, 0, { beam, token, score });
      best.splice(count);
    }
  }
  return best.map(({ beam, token, score }) => {
    return { ...beam, tokens: [...beam.tokens, token], score };
  });
}

/** Rows of tokens, padded on the right. */
function padded(
  rows: readonly (readonly number[])[],
  padToken: number,
  makeTensor: MakeTensor,
): Tensor {
  const length = Math.max(...rows.map((row) => row.length));
  const data = new BigInt64Array(rows.length * length).fill(BigInt(padToken));
  for (const [at, row] of rows.entries()) data.set(row.map(BigInt), at * length);
  return makeTensor("int64", data, [rows.length, length]);
}

/** Rows of a tensor, some several times or not at all. */
function picked(
  { type, dims, data }: Tensor,
  rows: readonly number[],
  makeTensor: MakeTensor,
): Tensor {
  const [count = 1, ...shape] = dims;
  const size = data.length / count;
  const Data = data.constructor as new (length: number) => Float32Array;
  const result = new Data(size * rows.length);
  for (const [at, row] of rows.entries()) {
    result.set((data as Float32Array).subarray(row * size, (row + 1) * size), at * size);
  }
  return makeTensor(type, result, [rows.length, ...shape]);
}
