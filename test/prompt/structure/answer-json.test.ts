import { describe, expect, it } from "vitest";
import { answerJson } from "../../../src/prompt/structure/answer-json.ts";

const read = (text: string) => answerJson({ text, finishReason: "stop", tokens: 1 });

describe("the JSON of an answer", () => {
  it.each([
    '{"a":1}',
    ' {"a":1}\n',
    '```\n{"a":1}\n```',
    '\n```json \n\n{"a":1}```\n',
    '```json\r\n{"a":1}\r\n```',
  ])("stands in %j", (text) => {
    expect(read(text)).toEqual({ a: 1 });
  });

  it.each(["", "```", '```{"a":1}```', '```js\n{"a":1}\n```', '```\n{"a":1}'])(
    "does not stand in %j",
    (text) => {
      expect(() => read(text)).toThrow("it is not JSON");
    },
  );

  it.each(["\n", " \n", "`", "```\n"])("is looked for at once among many %j", (part) => {
    expect(() => read(`\`\`\`json\n${part.repeat(300_000)}x`)).toThrow("it is not JSON");
    expect(() => read(`\`\`\`${part.repeat(300_000)}\`\`\``)).toThrow("it is not JSON");
  });
});
