/**
 * A function that calls `make` the first time and returns the same value from then on.
 *
 * @example
 * const parser = lazily(async () => (await import("yaml")).parse);
 * (await parser())("a: 1"); // { a: 1 }
 */
export function lazily<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
