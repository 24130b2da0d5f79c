/**
 * Handles items, up to `most` of them at once. After a failure no new items begin; the failure is
 * thrown once the items in progress have ended.
 */
export async function eachAtOnce<T>(
  items: Iterable<T> | AsyncIterable<T>,
  most: number,
  handle: (item: T) => Promise<unknown>,
): Promise<void> {
  const underWay = new Set<Promise<unknown>>();
  const failures: unknown[] = [];
  try {
    for await (const item of items) {
      const handling = handle(item)
        .catch((error) => void failures.push(error))
        .finally(() => underWay.delete(handling));
      underWay.add(handling);
      if (underWay.size >= most) await Promise.race(underWay);
      if (failures.length > 0) break;
    }
  } finally {
    await Promise.all(underWay);
  }
  if (failures.length > 0) throw failures[0];
}
