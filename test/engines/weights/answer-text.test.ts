import { describe, expect, it } from "vitest";
import { AnswerText } from "../../../src/engines/weights/answer-text.ts";
import { CallReader, callFormatOf } from "../../../src/engines/weights/call-formats.ts";

const call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>';
const calling = (stop: readonly string[] = []) =>
  new AnswerText({
    stop,
    calls: {
      reader: new CallReader(callFormatOf("<tool_call>")!, ["weather"]),
      idOf: (place) => `id${place}`,
    },
  });

/** Writes a text character by character; returns what was told before its end and after it. */
function told(text: AnswerText, written: string): [string, string] {
  let before = "";
  for (const character of written) {
    text.push(character);
    before += text.take();
  }
  text.end();
  return [before, text.take()];
}

describe("AnswerText", () => {
  it("tells text at once, and what may be a stop text once it is none", () => {
    const text = new AnswerText({ stop: ["END"] });
    expect(told(text, "an EN is no EN")).toEqual(["an EN is no ", "EN"]);
    expect(text.isStopped).toBe(false);
  });

  it("ends before the first stop text", () => {
    const text = new AnswerText({ stop: ["END", "x"] });
    expect(told(text, "a END x")).toEqual(["a ", ""]);
    expect(text).toMatchObject({ value: "a ", isStopped: true });
  });

  it("begins with its first word where it must", () => {
    expect(told(new AnswerText({ stop: [], trimsStart: true }), " \n a b")).toEqual(["a b", ""]);
  });

  it("takes calls out, and what was cut off behind them", () => {
    const text = calling();
    expect(told(text, `Let me see.\n${call}\n${call.slice(0, -5)}`)).toEqual(["Let me see.", ""]);
    const called = { name: "weather", arguments: '{"city": "Bern"}' };
    expect(text.toolCalls).toEqual([{ id: "id0", type: "function", function: called }]);
  });

  it("keeps a call that was cut off as text where there is no other", () => {
    const text = calling();
    const cut = `Let me see.\n${call.slice(0, 40)}`;
    told(text, cut);
    expect(text).toMatchObject({ value: cut, toolCalls: [] });
  });

  it("has no stop texts within calls, and no calls behind stop texts", () => {
    const within = calling(["Bern"]);
    told(within, `Hi ${call}`);
    expect(within).toMatchObject({ value: "Hi", isStopped: false, toolCalls: { length: 1 } });
    const behind = calling(["Hi"]);
    told(behind, `Oh Hi ${call}`);
    expect(behind).toMatchObject({ value: "Oh ", isStopped: true, toolCalls: [] });
  });
});
