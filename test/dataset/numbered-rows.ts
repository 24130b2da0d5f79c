import { dataset } from "../../src/dataset/sources.ts";
import type { SluiceError } from "../../src/foundation/errors.ts";

interface Numbered {
  id: number;
  text: string;
}

export const numbered = (count: number): Numbered[] =>
  Array.from({ length: count }, (_, id) => ({ id, text: `row ${id}` }));

/** Words of every row but each third: rows become none, one or two. */
export const words = (count: number) =>
  dataset
    .from(numbered(count))
    .filter(({ id }) => id % 3 !== 0)
    .flatMap(({ id, text }) => (id % 2 === 0 ? [] : text.split(" ").map((word) => ({ id, word }))));

export const rejection = (promise: Promise<unknown>): Promise<SluiceError> =>
  promise.then(
    () => Promise.reject(new Error("it was not rejected")),
    (error) => error as SluiceError,
  );
