import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { linesOfChunks } from "../../src/foundation/lines.ts";

async function* inPieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const linesOf = (text: string, size: number) =>
  Array.fromAsync(linesOfChunks(inPieces(Buffer.from(text), size)));

describe("linesOfChunks", () => {
  it("gives every line, wherever the chunks end", async () => {
    const line = fc.string({ unit: "grapheme" }).map((text) => JSON.stringify(text));
    await fc.assert(
      fc.asyncProperty(fc.array(line), fc.integer({ min: 1, max: 9 }), async (lines, size) => {
        const text = lines.map((one) => `${one}\n`).join("");
        expect(await linesOf(text, size)).toEqual(lines);
      }),
    );
  });

  it("cuts at line feeds alone", async () => {
    const lines = ['"\u2028"', '"\u2029"', '"\u0085"', '"a"\r', ""];
    expect(await linesOf(lines.map((one) => `${one}\n`).join(""), 4)).toEqual(lines);
  });

  it("gives a last line without its end", async () => {
    expect(await linesOf("1\n2", 1)).toEqual(["1", "2"]);
  });
});
