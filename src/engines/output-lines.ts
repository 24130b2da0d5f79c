import type { Readable } from "node:stream";

/** How the lines of a stream are handled. */
export interface LineReader {
  onLine(line: string): void;
  /** Called instead for a line beyond the limit, with its beginning. Default: it is cut there. */
  onTooLong?(beginning: string): void;
}

/**
 * Reads a stream line by line, including a last one without an end. Holds at most one line, and at
 * most `maxChars` and one piece of it; skips empty lines.
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
