interface Row {
  id: number;
  value: number;
}

/** A model of one line, in the place of one that takes long to load and longer to compute. */
export class Predictor {
  readonly #line: { slope: number; offset: number };

  constructor(line: { slope: number; offset: number }) {
    this.#line = line;
  }

  /** Where a model would be read from disk; called once in each replica, before any batch. */
  async load(): Promise<void> {}

  call(batch: readonly Row[]) {
    const { slope, offset } = this.#line;
    return batch.map(({ id, value }) => ({
      ...{ id, value },
      prediction: slope * value + offset,
      replica: process.pid,
    }));
  }
}
