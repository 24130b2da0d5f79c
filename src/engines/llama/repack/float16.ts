/**
 * Every 16-bit float as a number, by its bits: reading one is then a look into a table.
 *
 * @example
 * float16Values[0x3c00]; // 1
 */
export const float16Values: Float32Array = Float32Array.from({ length: 65_536 }, (_, bits) =>
  valueOfBits(bits),
);

function valueOfBits(bits: number): number {
  const sign = bits >= 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/**
 * The bits of the 16-bit float that is nearest to a number ≥ 0; of two that are level the one with
 * an even last bit. Infinity for what is too large.
 */
export function toFloat16Bits(value: number): number {
  if (value >= 65_520) return 0x7c00;
  // Below 2^-14 all floats are 2^-24 apart, above it 1024 of them lie between powers of two.
  const exponent = Math.max(-14, Math.floor(Math.log2(value)));
  const steps = roundHalfToEven(value / 2 ** (exponent - 10));
  return ((exponent + 14) << 10) + steps;
}

function roundHalfToEven(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 === 1 ? rounded - 1 : rounded;
}
