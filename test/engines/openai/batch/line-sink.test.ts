import { describe, expect, it } from "vitest";
import { LineSink } from "../../../../src/engines/openai/batch/line-sink.ts";

function linesOf(...chunks: string[]): string[] {
  const lines: string[] = [];
  const sink = new LineSink((line) => void lines.push(line.toString()));
  for (const chunk of chunks) sink.add(Buffer.from(chunk));
  sink.end({});
  return lines;
}

describe("LineSink", () => {
  it("gives whole lines, wherever the chunks are cut", () => {
    const text = '{"a":1}\n\n{"b":"ü"}\n{"c":3}';
    const wanted = ['{"a":1}', '{"b":"ü"}', '{"c":3}'];
    expect(linesOf(text)).toEqual(wanted);
    const bytes = Buffer.from(text);
    for (let at = 0; at <= bytes.length; at++) {
      const lines: string[] = [];
      const sink = new LineSink((line) => void lines.push(line.toString()));
      sink.add(bytes.subarray(0, at));
      sink.add(bytes.subarray(at));
      sink.end({});
      expect(lines).toEqual(wanted);
    }
    expect(linesOf()).toEqual([]);
  });

  it("refuses a line that would fill the memory", () => {
    const sink = new LineSink(() => {});
    const chunk = Buffer.alloc(16 * 1024 * 1024, "x");
    for (let count = 0; count < 4; count++) sink.add(chunk);
    expect(() => sink.add(chunk)).toThrow("a line has over");
  });
});
