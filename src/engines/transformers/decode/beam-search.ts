import { type GeneratedRow, type Logits, logSoftmax, type Sequence, type Steps } from "./steps.ts";

/** Settings of a beam search, as in Hugging Face transformers. */
export interface BeamOptions {
  /** Beams of a row. */
  numBeams: number;
  /** Returned sequences of a row, at most `numBeams`. */
  numReturnSequences: number;
  /** Above 0 prefers longer answers: a score is divided by the length to this power. */
  lengthPenalty: number;
  /**
   * `true`: a row ends when it has as many finished sequences as beams; `false`: when no running
   * beam is likely to become better; `"never"`: when none can.
   */
  earlyStopping: boolean | "never";
  endTokens: ReadonlySet<number>;
}

/** A sequence, and the logarithm of its probability by its length. */
export interface ScoredSequence extends Sequence {
  score: number;
}

/** A sequence that continues; `score` is the logarithm of its probability. */
interface Beam {
  tokens: readonly number[];
  score: number;
}

/** A continuation of a row: one of its beams with one more token. */
interface Candidate {
  score: number;
  /** Place of the beam among those of its row. */
  beam: number;
  token: number;
}

/**
 * Searches, for each row, the sequences that are likeliest as a whole. A row leaves the batch as
 * soon as it is decided, so that its result is the same alone and among others.
 *
 * A step considers enough candidates that `numBeams` of them stay even if all beams end; an end
 * counts only among the `numBeams` best.
 *
 * @returns for each row its `numReturnSequences` best sequences, the best first.
 */
export async function searchBeams(
  steps: Steps,
  generated: readonly GeneratedRow[],
  options: BeamOptions,
  signal: AbortSignal,
): Promise<ScoredSequence[][]> {
  const rows = generated.map((row) => new BeamRow(row, options));
  let open = rows;
  let logits = await steps.begin();
  for (;;) {
    let first = 0;
    const parents: number[] = [];
    const tokens: number[] = [];
    for (const row of open) {
      const chosen = row.advance(logits.slice(first, first + row.width));
      for (const { beam, token } of chosen) {
        parents.push(first + beam);
        tokens.push(token);
      }
      first += row.widthBefore;
    }
    open = open.filter(({ isDone }) => !isDone);
    if (open.length === 0) return rows.map((row) => row.best());
    signal.throwIfAborted();
    logits = await steps.next(parents, tokens);
  }
}

/** One row during its search. */
class BeamRow {
  readonly #row: GeneratedRow;
  readonly #options: BeamOptions;
  #running: Beam[] = [{ tokens: [], score: 0 }];
  /** At most `numBeams`, the best first. */
  #finished: ScoredSequence[] = [];
  isDone = false;
  /** Its beams before the last advance. */
  widthBefore = 1;

  constructor(row: GeneratedRow, options: BeamOptions) {
    this.#row = row;
    this.#options = options;
  }

  /** Beams that continue. */
  get width(): number {
    return this.#running.length;
  }

  /**
   * Takes a step.
   * @returns how its beams continue; none if the row is done.
   */
  advance(logits: readonly Logits[]): Candidate[] {
    this.widthBefore = this.width;
    const { numBeams, endTokens } = this.#options;
    const chosen: Candidate[] = [];
    const length = this.#running[0]!.tokens.length + 1;
    for (const [rank, candidate] of this.#candidates(logits).entries()) {
      const isEnd = endTokens.has(candidate.token);
      if (isEnd || length >= this.#row.maxNewTokens) {
        if (rank < numBeams) this.#finish(candidate, isEnd ? "stop" : "length");
      } else if (chosen.length < numBeams) chosen.push(candidate);
    }
    this.#running = chosen.map(({ score, beam, token }) => {
      return { score, tokens: [...this.#running[beam]!.tokens, token] };
    });
    this.isDone = chosen.length === 0 || this.#isDecided(length);
    return this.isDone ? [] : chosen;
  }

  best(): ScoredSequence[] {
    return this.#finished.slice(0, this.#options.numReturnSequences);
  }

  /** The best continuations, the best first. */
  #candidates(logits: readonly Logits[]): Candidate[] {
    const { numBeams, endTokens } = this.#options;
    const { prompt, rules } = this.#row;
    const best = new Best(Math.max(2, 1 + endTokens.size) * numBeams);
    for (const [beam, { tokens, score }] of this.#running.entries()) {
      const logProbabilities = logSoftmax(logits[beam]!);
      rules([...prompt, ...tokens], logProbabilities);
      best.addAll(logProbabilities, beam, score);
    }
    return best.candidates;
  }

  #finish({ score, beam, token }: Candidate, finishReason: Sequence["finishReason"]): void {
    const tokens = [...this.#running[beam]!.tokens, token];
    const weighed = score / tokens.length ** this.#options.lengthPenalty;
    this.#finished.push({ tokens, finishReason, score: weighed });
    this.#finished.sort((one, other) => other.score - one.score);
    this.#finished.length = Math.min(this.#finished.length, this.#options.numBeams);
  }

  /** Whether no running beam is likely to change the result. */
  #isDecided(length: number): boolean {
    const { numBeams, lengthPenalty, earlyStopping } = this.#options;
    if (this.#finished.length < numBeams) return false;
    if (earlyStopping === true) return true;
    const isLongestBest = earlyStopping === "never" && lengthPenalty > 0;
    const bestLength = isLongestBest ? this.#row.maxNewTokens : length;
    const reachable = this.#running[0]!.score / bestLength ** lengthPenalty;
    return reachable <= this.#finished.at(-1)!.score;
  }
}

/** The best of many candidates, without sorting them all. */
class Best {
  readonly candidates: Candidate[] = [];
  readonly #size: number;
  #worst = Number.NEGATIVE_INFINITY;

  constructor(size: number) {
    this.#size = size;
  }

  addAll(logProbabilities: Logits, beam: number, sofar: number): void {
    for (let token = 0; token < logProbabilities.length; token++) {
      const score = sofar + logProbabilities[token]!;
      // An impossible token is never a candidate, even if there are too few others.
      if (score > this.#worst) this.#add({ score, beam, token });
    }
  }

  #add(candidate: Candidate): void {
    const place = this.candidates.findIndex(({ score }) => score < candidate.score);
    this.candidates.splice(place < 0 ? this.candidates.length : place, 0, candidate);
    if (this.candidates.length <= this.#size) return;
    this.candidates.pop();
    this.#worst = this.candidates.at(-1)!.score;
  }
}
