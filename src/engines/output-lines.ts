import type { Readable } from "node:stream";

/** What happens to the lines of a stream. */
export interface LineReader {
  onLine(line: string): void;
  /** Called for a line beyond the limit instead, with its beginning. Default: it is cut there. */
  onTooLong?(beginning: string): void;
}

/**
 * Reads a stream line by line, the last one also without its end. Holds no more than one line, and
 * of that no more than `maxChars` and a piece; empty lines are passed over.
 */
export function readOutputLines(stream: Readable, maxChars: number, reader: LineReader): void {
  let pending = "";
  let isSkipping = false;
  const finish = () => {
    if (!isSkipping && pending.trim() !== "") reader.onLine(pending);
    pending = "";
    isSkipping = false;
  };
  stream.setEncoding("utf8");
  stream.on("data", (chunk: string) => {
    let start = 0;
    for (let end = chunk.indexOf("\n"); end >= 0; end = chunk.indexOf("\n", start)) {
      if (!isSkipping) pending += chunk.slice(start, end).replace(/\r$/, "");
      start = end + 1;
      finish();
    }
    if (isSkipping) return;
    pending += chunk.slice(start);
    if (pending.length <= maxChars) return;
    const beginning = pending.slice(0, maxChars);
    if (reader.onTooLong) reader.onTooLong(beginning);
    else reader.onLine(beginning);
    pending = "";
    isSkipping = true;
  });
  stream.on("end", finish);
}
