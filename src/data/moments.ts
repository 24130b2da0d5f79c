/** The precision of a time. */
export type TimeUnit = "milliseconds" | "microseconds" | "nanoseconds";

const digitsOf = { milliseconds: 3, microseconds: 6, nanoseconds: 9 } as const;
const perSecond = {
  milliseconds: 1_000n,
  microseconds: 1_000_000n,
  nanoseconds: 1_000_000_000n,
} as const;
const secondsPerDay = 86_400n;
const maxInt64 = 2n ** 63n - 1n;

/** A `Date` reaches this many seconds from 1970, in both directions. */
const maxSeconds = 8_640_000_000_000n;

const datePattern = /^(?:\d{4}|[+-]\d{6})-\d\d-\d\d$/;
const timePattern = /^(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?$/;
const timestampPattern = /^((?:\d{4}|[+-]\d{6})-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z?)$/;

/**
 * The ISO 8601 text of a point in time, with all digits of its unit.
 *
 * @param since units since 1970-01-01T00:00:00.
 * @param isUtc whether the text ends in `Z`; without it, the time has no time zone.
 * @returns undefined for a year outside of ISO 8601 (about 270,000 before or after).
 * @example
 * timestampText(1_500n, "milliseconds", true); // "1970-01-01T00:00:01.500Z"
 */
export function timestampText(since: bigint, unit: TimeUnit, isUtc: boolean): string | undefined {
  const { seconds, fraction } = split(since, unit);
  if (seconds > maxSeconds || seconds < -maxSeconds) return undefined;
  const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, -".000Z".length);
  return `${whole}.${fraction}${isUtc ? "Z" : ""}`;
}

/**
 * The inverse of `timestampText`. Undefined if the text is not such a time, is more precise than
 * the unit, or lies beyond 64 bits.
 */
export function timestampOf(text: string, unit: TimeUnit, isUtc: boolean): bigint | undefined {
  const [, whole, fraction = "", zone] = timestampPattern.exec(text) ?? [];
  if (whole === undefined || (zone === "Z") !== isUtc) return undefined;
  const milliseconds = Date.parse(`${whole}Z`);
  const part = unitsOf(fraction, unit);
  if (Number.isNaN(milliseconds) || part === undefined) return undefined;
  // `Date.parse` accepts February 30 and hour 24.
  if (!new Date(milliseconds).toISOString().startsWith(whole)) return undefined;
  const since = BigInt(milliseconds / 1000) * perSecond[unit] + part;
  return since <= maxInt64 && since >= -maxInt64 - 1n ? since : undefined;
}

/** `2024-02-29` from the days since 1970-01-01; undefined for a year outside of ISO 8601. */
export function dateText(days: number): string | undefined {
  const seconds = BigInt(days) * secondsPerDay;
  if (seconds > maxSeconds || seconds < -maxSeconds) return undefined;
  return new Date(days * 86_400_000).toISOString().slice(0, -"T00:00:00.000Z".length);
}

/** The days since 1970-01-01 of a date; undefined if the text is not a date. */
export function dateOf(text: string): number | undefined {
  if (!datePattern.test(text)) return undefined;
  const milliseconds = Date.parse(`${text}T00:00:00Z`);
  if (Number.isNaN(milliseconds)) return undefined;
  const days = milliseconds / 86_400_000;
  return dateText(days) === text ? days : undefined;
}

/** `13:05:00.250` from the units since midnight; undefined if that is not a time of day. */
export function timeText(since: bigint, unit: TimeUnit): string | undefined {
  const { seconds, fraction } = split(since, unit);
  if (seconds < 0n || seconds >= secondsPerDay) return undefined;
  const whole = new Date(Number(seconds) * 1000).toISOString().slice(11, 19);
  return `${whole}.${fraction}`;
}

/** The units since midnight of a time; undefined if the text is not such a time. */
export function timeOf(text: string, unit: TimeUnit): bigint | undefined {
  const [, hours, minutes, seconds, fraction = ""] = timePattern.exec(text) ?? [];
  const part = unitsOf(fraction, unit);
  if (hours === undefined || part === undefined) return undefined;
  if (Number(hours) > 23 || Number(minutes) > 59 || Number(seconds) > 59) return undefined;
  const whole = Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
  return BigInt(whole) * perSecond[unit] + part;
}

function split(since: bigint, unit: TimeUnit): { seconds: bigint; fraction: string } {
  const per = perSecond[unit];
  const rest = ((since % per) + per) % per;
  return { seconds: (since - rest) / per, fraction: String(rest).padStart(digitsOf[unit], "0") };
}

/** The units in the digits after the point; undefined if they are more precise than the unit. */
function unitsOf(fraction: string, unit: TimeUnit): bigint | undefined {
  const digits = digitsOf[unit];
  if (/[^0]/.test(fraction.slice(digits))) return undefined;
  return BigInt(fraction.slice(0, digits).padEnd(digits, "0"));
}
