/** How many single-character edits turn one word into the other (Levenshtein 1965). */
export function editDistance(from: string, to: string): number {
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const substitution = previous[column - 1]! + (from[row - 1] === to[column - 1] ? 0 : 1);
      current.push(Math.min(substitution, previous[column]! + 1, current[column - 1]! + 1));
    }
    previous = current;
  }
  return previous[to.length]!;
}

/**
 * The candidate that was most likely meant; undefined if none is close. Close means that at most a
 * third of the word, or two characters if that is more, would have to change. Letter case is
 * ignored.
 *
 * @example
 * nearest("temprature", ["temperature", "topP"]); // "temperature"
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  const limit = Math.max(2, Math.floor(word.length / 3));
  let best: string | undefined;
  let bestDistance = limit + 1;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue;
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/**
 * Says that a value is not one of the known ones, and which one was most likely meant.
 *
 * @example
 * oneOf("lokal", ["local"]); // 'must be one of local, not "lokal"; did you mean local?'
 */
export function oneOf(value: unknown, known: readonly string[]): string {
  const meant = typeof value === "string" ? nearest(value, known) : undefined;
  const suggestion = meant === undefined ? "" : `; did you mean ${meant}?`;
  return `must be one of ${known.join(", ")}, not ${shown(value)}${suggestion}`;
}

/** The text, or its beginning with `…`. */
export function clipped(text: string, chars = 80): string {
  return text.length <= chars ? text : `${text.slice(0, chars)}…`;
}

/** A value as error messages show it. */
export function shown(value: unknown): string {
  return clipped(JSON.stringify(value) ?? "nothing", 60);
}

/**
 * The key that was most likely meant, among keys of several levels. The last level counts first,
 * because people remember that one: `temprature` means `generation.temperature`.
 *
 * @param separator what stands between levels: `.` in keys, `__` in variables.
 * @example
 * nearestKey("SLUICE_SEED", ["SLUICE_NAME", "SLUICE_GENERATION__SEED"], "__");
 */
export function nearestKey(
  word: string,
  keys: readonly string[],
  separator: "." | "__",
): string | undefined {
  const last = (key: string) =>
    key
      .replace(/^SLUICE_/, "")
      .split(separator)
      .at(-1)!;
  const exact = keys.find((key) => last(key).toLowerCase() === last(word).toLowerCase());
  if (exact !== undefined) return exact;
  const whole = nearest(word, keys);
  if (whole !== undefined) return whole;
  const part = nearest(last(word), keys.map(last));
  return keys.find((key) => last(key) === part);
}
