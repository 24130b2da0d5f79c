/**
 * The lines of a UTF-8 stream, without line ends. The last line counts even without a line end.
 *
 * Only `
 * ` ends a line, as in JSON Lines. `node:readline` also cuts at U+2028 and the like, which may
 * stand raw in JSON texts. Memory holds one chunk and one line.
 */
export async function* linesOfChunks(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let pending = "";
  for await (const chunk of chunks) {
    const lines = (pending + decoder.decode(chunk, { stream: true })).split("\n");
    pending = lines.pop()!;
    yield* lines;
  }
  if (pending !== "") yield pending;
}
