/** An estimate with its bounds: the true value lies between them in 95 of 100 cases. */
export interface Interval {
  estimated: number;
  low: number;
  high: number;
}

/** The sampled values of one part of a whole. */
export interface SampleUnit {
  /** The part's size, such as its rows. */
  size: number;
  /** The part's value of the quantity to estimate. */
  value: number;
}

/**
 * With fewer groups than this, rows are taken one by one: few groups say little of their spread.
 */
const minGroups = 5;

/**
 * The units of a sample. Neighbouring rows may be alike, so each group of them counts as one unit;
 * with only few groups, each row does.
 */
export function unitsOf(
  rows: readonly { task: number; size: number; value: number }[],
): SampleUnit[] {
  const groups = new Map<number, SampleUnit>();
  for (const { task, size, value } of rows) {
    const known = groups.get(task) ?? { size: 0, value: 0 };
    groups.set(task, { size: known.size + size, value: known.value + value });
  }
  return groups.size < minGroups ? [...rows] : [...groups.values()];
}

/**
 * Scales a sample up to a whole of size `total`: the ratio estimator `r = Σ value / Σ size`, with
 * Student's t for `k - 1` degrees of freedom,
 *
 *     total · (r ± t · √((1 - f) · s² / k) / m),   s² = Σ (value - r · size)² / (k - 1)
 *
 * where `k` is the number of units, `m` their mean size and `f` their share of the whole (Cochran,
 * Sampling Techniques, 3rd edition, sections 2.8, 6.4). With units of size 1 this is the mean with
 * its usual interval.
 *
 * @param units at least two, unless they are the whole.
 */
export function intervalOf(units: readonly SampleUnit[], total: number): Interval {
  const size = units.reduce((sum, unit) => sum + unit.size, 0);
  const seen = units.reduce((sum, unit) => sum + unit.value, 0);
  if (size === 0) return exactly(0);
  if (size >= total) return exactly(seen);
  const ratio = seen / size;
  const count = units.length;
  const squares = units.reduce((sum, unit) => sum + (unit.value - ratio * unit.size) ** 2, 0);
  const variance = ((1 - size / total) * squares) / Math.max(1, count - 1) / count;
  const half = (total * studentT(Math.max(1, count - 1)) * Math.sqrt(variance) * count) / size;
  const estimated = ratio * total;
  return { estimated, low: Math.max(seen, estimated - half), high: estimated + half };
}

export function exactly(value: number): Interval {
  return { estimated: value, low: value, high: value };
}

export function scaled({ estimated, low, high }: Interval, factor: number): Interval {
  return { estimated: estimated * factor, low: low * factor, high: high * factor };
}

/** The interval of a product of two independent estimates: relative errors add up in squares. */
export function productOf(a: Interval, b: Interval): Interval {
  const estimated = a.estimated * b.estimated;
  const below = Math.hypot(share(a, "low"), share(b, "low"));
  const above = Math.hypot(share(a, "high"), share(b, "high"));
  return { estimated, low: estimated * Math.max(0, 1 - below), high: estimated * (1 + above) };
}

function share(interval: Interval, bound: "low" | "high"): number {
  if (interval.estimated === 0) return 0;
  return Math.abs(interval[bound] - interval.estimated) / interval.estimated;
}

/** 97.5 % of the normal distribution lie below this. */
const z = 1.959964;

/**
 * The quantile of Student's t below which 97.5 % lie: the first two exactly, the others by the
 * expansion of Abramowitz and Stegun, 26.7.5, which is correct to a thousandth.
 */
export function studentT(degreesOfFreedom: number): number {
  if (degreesOfFreedom <= 2) return degreesOfFreedom === 2 ? 4.302653 : 12.706205;
  const terms = [
    (z ** 3 + z) / 4,
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384,
    (79 * z ** 9 + 776 * z ** 7 + 1482 * z ** 5 - 1920 * z ** 3 - 945 * z) / 92_160,
  ];
  return terms.reduce((sum, term, at) => sum + term / degreesOfFreedom ** (at + 1), z);
}
