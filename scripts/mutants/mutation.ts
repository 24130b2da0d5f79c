/** One bug that somebody could write, and the tests that should see it. */
export interface Mutation {
  /** What is wrong then. */
  what: string;
  file: string;
  /** Stands exactly once in the file. */
  text: string;
  replacement: string;
  /** Test files, of which one at least must fail. */
  tests: readonly string[];
}
