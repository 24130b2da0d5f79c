import { PassThrough } from "node:stream";
import { finished } from "node:stream/promises";
import { describe, expect, it } from "vitest";
import { readOutputLines } from "../../src/engines/output-lines.ts";

async function read(chunks: readonly string[], maxChars = 100, noticesLong = false) {
  const stream = new PassThrough();
  const lines: string[] = [];
  const long: string[] = [];
  const onTooLong = (beginning: string) => void long.push(beginning);
  readOutputLines(stream, maxChars, {
    onLine: (line) => void lines.push(line),
    ...(noticesLong && { onTooLong }),
  });
  for (const chunk of chunks) stream.write(chunk);
  stream.end();
  await finished(stream);
  return { lines, long };
}

describe("readOutputLines", () => {
  it("puts lines together from pieces, and passes over empty ones", async () => {
    const { lines } = await read(["one\ntw", "o\r\n", "\n  \nthree"]);
    expect(lines).toEqual(["one", "two", "three"]);
  });

  it("holds no more of a line than it may, and goes on behind it", async () => {
    const { lines } = await read(["x".repeat(9), "y".repeat(9), "z".repeat(9), "end\nnext\n"], 10);
    expect(lines).toEqual(["xxxxxxxxxy", "next"]);
    const told = await read(["x".repeat(30), "\nnext\n"], 10, true);
    expect(told).toEqual({ lines: ["next"], long: ["xxxxxxxxxx"] });
  });
});
