import { PassThrough } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Channel, channelPair, jsonLinesChannel } from "../../src/foundation/channel.ts";
import type { SluiceError } from "../../src/foundation/errors.ts";
import { limits } from "../../src/foundation/limits.ts";

interface Heard {
  messages: unknown[];
  closes: (Error | undefined)[];
}

/** Everything that comes out of a channel. */
function listen(channel: Channel<unknown, unknown>): Heard {
  const heard: Heard = { messages: [], closes: [] };
  channel.onClose((error) => heard.closes.push(error));
  channel.onMessage((message) => heard.messages.push(message));
  return heard;
}

function reader(): { input: PassThrough; heard: Heard } {
  const input = new PassThrough();
  return { input, heard: listen(jsonLinesChannel(input, new PassThrough())) };
}

/** Two channels over a pair of byte streams, as a worker and its coordinator have them. */
function connected() {
  const [there, back] = [new PassThrough(), new PassThrough()];
  return { a: jsonLinesChannel(back, there), b: jsonLinesChannel(there, back) };
}

const codeOf = (error: Error | undefined) => (error as SluiceError | undefined)?.code;

describe("jsonLinesChannel", () => {
  it("carries messages both ways, in order", async () => {
    const { a, b } = connected();
    const [atA, atB] = [listen(a), listen(b)];
    for (let n = 0; n < 100; n++) a.send({ n });
    b.send({ text: "line\nbreak, å🍲" });
    await nextTurn();
    expect(atB.messages).toEqual(Array.from({ length: 100 }, (_, n) => ({ n })));
    expect(atA.messages).toEqual([{ text: "line\nbreak, å🍲" }]);
  });

  it("puts together lines that arrive in pieces, also within a character", async () => {
    const messages = fc.array(fc.dictionary(fc.string(), fc.string({ unit: "grapheme" })), {
      maxLength: 5,
    });
    await fc.assert(
      fc.asyncProperty(messages, fc.integer({ min: 1, max: 7 }), async (sent, size) => {
        const bytes = Buffer.from(sent.map((message) => `${JSON.stringify(message)}\n`).join(""));
        const { input, heard } = reader();
        for (let at = 0; at < bytes.length; at += size) input.write(bytes.subarray(at, at + size));
        input.end();
        await nextTurn();
        await nextTurn();
        expect(JSON.stringify(heard.messages)).toBe(JSON.stringify(sent));
        expect(heard.closes).toEqual([undefined]);
      }),
      { numRuns: 50 },
    );
  });

  it("passes blank lines over and takes CRLF", async () => {
    const { input, heard } = reader();
    input.write('\n{"a":1}\r\n\n   \n{"b":2}\n');
    await nextTurn();
    expect(heard.messages).toEqual([{ a: 1 }, { b: 2 }]);
  });

  it("closes once when the other end is gone, without a torn last line", async () => {
    const { input, heard } = reader();
    input.write('{"a":1}\n{"b":');
    input.end();
    await nextTurn();
    await nextTurn();
    expect(heard).toEqual({ messages: [{ a: 1 }], closes: [undefined] });
  });

  it("ends with PROTOCOL at a line that is no JSON", async () => {
    const { input, heard } = reader();
    input.write('{"a":1}\nWarning: low memory\n');
    await nextTurn();
    expect(heard.messages).toEqual([{ a: 1 }]);
    expect(heard.closes.map(codeOf)).toEqual(["PROTOCOL"]);
    expect(heard.closes[0]?.message).toContain("Warning: low memory");
  });

  it("ends with PROTOCOL at JSON that is no object", async () => {
    for (const line of ["42", "null", "[1]", '"text"']) {
      const { input, heard } = reader();
      input.write(`${line}\n`);
      await nextTurn();
      expect(heard.messages, line).toEqual([]);
      expect(heard.closes.map(codeOf), line).toEqual(["PROTOCOL"]);
    }
  });

  it("delivers nothing after it has ended", async () => {
    const { input, heard } = reader();
    input.write('broken\n{"a":1}\n');
    input.write('{"b":2}\n');
    await nextTurn();
    expect(heard.messages).toEqual([]);
    expect(heard.closes).toHaveLength(1);
  });

  it("ends with PROTOCOL when a message is too large, and keeps no more of it", async () => {
    const { input, heard } = reader();
    const chunk = Buffer.alloc(8 * 1024 * 1024, "x");
    for (let sent = 0; sent <= limits.maxMessageBytes; sent += chunk.length) {
      input.write(chunk);
      await nextTurn();
    }
    expect(heard.closes.map(codeOf)).toEqual(["PROTOCOL"]);
  });

  it("reports a broken pipe as a close, not as a crash", async () => {
    const [input, output] = [new PassThrough(), new PassThrough()];
    const channel = jsonLinesChannel(input, output);
    const heard = listen(channel);
    const broken = new Error("EPIPE");
    output.destroy(broken);
    await nextTurn();
    channel.send({ late: true });
    await nextTurn();
    expect(heard.closes).toEqual([broken]);
  });

  it("tells a listener that comes late why it closed", async () => {
    const output = new PassThrough();
    const channel = jsonLinesChannel(new PassThrough(), output);
    const broken = new Error("EPIPE");
    output.destroy(broken);
    await nextTurn();
    expect(await new Promise((resolve) => channel.onClose(resolve))).toBe(broken);
  });

  it("ends its output after what was sent", async () => {
    const { a, b } = connected();
    const heard = listen(b);
    a.send({ last: true });
    a.close();
    await nextTurn();
    await nextTurn();
    expect(heard).toEqual({ messages: [{ last: true }], closes: [undefined] });
  });
});

describe("channelPair", () => {
  it("carries copies, later, in order, also to a listener that comes late", async () => {
    const [a, b] = channelPair<{ n: number[] }, { n: number[] }>();
    const sent = { n: [1] };
    a.send(sent);
    sent.n.push(2);
    a.send(sent);
    await nextTurn();
    const heard = listen(b);
    expect(heard.messages).toEqual([{ n: [1] }, { n: [1, 2] }]);
    b.send({ n: [] });
    const back = listen(a);
    expect(back.messages).toEqual([]);
    await nextTurn();
    expect(back.messages).toEqual([{ n: [] }]);
  });

  it("tells the other end of its close, after what was sent before", async () => {
    const [a, b] = channelPair<object, object>();
    const heard = listen(b);
    a.send({ last: true });
    a.close();
    a.send({ late: true });
    await nextTurn();
    expect(heard).toEqual({ messages: [{ last: true }], closes: [undefined] });
  });

  it("tells a listener that comes after the close", async () => {
    const [a, b] = channelPair<object, object>();
    a.close();
    await nextTurn();
    expect(listen(b).closes).toEqual([undefined]);
  });
});
