/** What is measured in turn, by name: each call is one measurement. */
type Contenders = Record<string, () => Promise<unknown>>;

/** The measurements of each contender. */
type Figures<Measured extends Contenders> = {
  [Name in keyof Measured]: Awaited<ReturnType<Measured[Name]>>[];
};

/**
 * Measures contenders in turn, A B A B …, so that whatever else the machine does meanwhile meets
 * all of them alike.
 *
 * @param label what is printed to stderr when a round is done.
 */
export async function inTurn<Measured extends Contenders>(
  label: string,
  rounds: number,
  contenders: Measured,
): Promise<Figures<Measured>> {
  const figures: Record<string, unknown[]> = {};
  for (let round = 1; round <= rounds; round++) {
    for (const [name, measure] of Object.entries(contenders)) {
      figures[name] ??= [];
      figures[name].push(await measure());
    }
    console.error(`${label}: round ${round} of ${rounds}`);
  }
  return figures as Figures<Measured>;
}

/** The middle value; of an even count the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length % 2 === 1) return sorted[middle]!;
  return (sorted[middle - 1]! + sorted[middle]!) / 2;
}
