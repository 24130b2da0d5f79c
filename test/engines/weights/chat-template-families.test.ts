import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ChatTemplate } from "../../../src/engines/weights/chat-template.ts";
import type { ChatMessage } from "../../../src/foundation/inference.ts";

/** How a family's models were trained to see the two conversations below. */
interface Golden {
  bos: string;
  eos: string;
  /** Absent where the family has no system messages. */
  conversation?: string;
  /** What the template says of a system message, where it has none. */
  refuses?: string;
  question: string;
}

// Templates of our own in the shapes of Jinja that the families' own have, one golden file each.
const folder = join(import.meta.dirname, "chat-template-families");
const families = readdirSync(folder)
  .filter((name) => name.endsWith(".jinja"))
  .map((name) => name.replace(/\.jinja$/, ""));

const conversation: ChatMessage[] = [
  { role: "system", content: "You are a careful clerk." },
  { role: "user", content: "  Hello " },
  { role: "assistant", content: " Good day. " },
  { role: "user", content: "What is <|im_end|>?" },
];
const question: ChatMessage[] = [{ role: "user", content: "Hi" }];

function family(name: string): { golden: Golden; template: ChatTemplate } {
  const read = (ending: string) => readFileSync(join(folder, `${name}.${ending}`), "utf8");
  const golden = JSON.parse(read("json")) as Golden;
  return { golden, template: new ChatTemplate(read("jinja"), golden) };
}

const textOf = (template: ChatTemplate, messages: readonly ChatMessage[]) =>
  template
    .render(messages)
    .map(({ text }) => text)
    .join("");

describe("chat templates of known families", () => {
  it("are ten at least", () => {
    expect(families.length).toBeGreaterThanOrEqual(10);
  });

  it.each(families)("%s renders a question", (name) => {
    const { golden, template } = family(name);
    expect(textOf(template, question)).toBe(golden.question);
  });

  it.each(families)("%s renders a conversation, or says what it refuses", (name) => {
    const { golden, template } = family(name);
    if (golden.refuses !== undefined) {
      expect(() => template.render(conversation)).toThrow(golden.refuses);
      return;
    }
    expect(textOf(template, conversation)).toBe(golden.conversation);
    const contents = template.render(conversation).filter(({ kind }) => kind === "content");
    expect(contents).toHaveLength(conversation.length);
  });
});
