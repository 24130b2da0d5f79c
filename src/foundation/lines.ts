/**
 * The lines of a stream of UTF-8, without their ends; the last one also where it has no end.
 *
 * A line ends at `\n` alone, as in JSON Lines: U+2028 and its like, at which `node:readline` cuts
 * too, stand raw within JSON texts. Memory holds one chunk and one line.
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
