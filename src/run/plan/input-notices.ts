import type { InputSummary, Plan } from "./plan.ts";

/** What a person should know of how an input was read and cut. */
export function inputNotices({ input }: Plan): string[] {
  const { lineFiles = 0, leftOutFiles = 0, leftOutResults = 0 } = input;
  const notices = cutNotices(input);
  if (lineFiles > 0) {
    const are = lineFiles === 1 ? "1 file of text is read" : `${lineFiles} files of text are read`;
    notices.push(
      `${are} line by line: each line is a row; for one row a file, set input.format to text-file`,
    );
  }
  if (leftOutFiles > 0) {
    const are = leftOutFiles === 1 ? "1 file is" : `${leftOutFiles} files are`;
    notices.push(`${are} left out of the input's folder: no format is known by the ending`);
  }
  if (leftOutResults > 0) notices.push(leftOutNotice(leftOutResults));
  return notices;
}

/** Says that results of runs were found below the input, and not read. */
export function leftOutNotice(files: number): string {
  const are = files === 1 ? "1 file is" : `${files} files are`;
  return `${are} left out of the input: runs made them; name a run's folder to read it`;
}

function cutNotices({ compressedFiles = 0, largestTaskRows }: InputSummary): string[] {
  if (compressedFiles === 0) return [];
  const what =
    compressedFiles === 1
      ? "1 file is compressed or of another encoding, so that it cannot be cut: it is one shard"
      : `${compressedFiles} files are compressed or of another encoding, so that they cannot be ` +
        "cut: each lies in one shard";
  if (largestTaskRows === undefined) return [what];
  const largest = largestTaskRows.toLocaleString("en");
  return [`${what}, the largest of ${largest} rows; more files share work out better`];
}
