import type { Plan } from "./plan.ts";

/** What a person should know of how an input was cut. */
export function inputNotices({ input }: Plan): string[] {
  const { compressedFiles = 0, largestTaskRows } = input;
  if (compressedFiles === 0) return [];
  const what =
    compressedFiles === 1
      ? "1 file is compressed, so that it cannot be cut: it is one shard"
      : `${compressedFiles} files are compressed, so that they cannot be cut: each lies in one shard`;
  if (largestTaskRows === undefined) return [what];
  const largest = largestTaskRows.toLocaleString("en");
  return [`${what}, the largest of ${largest} rows; more files share work out better`];
}
