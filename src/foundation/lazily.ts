/**
 * What `make` gives, made by the first call that wants it.
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
