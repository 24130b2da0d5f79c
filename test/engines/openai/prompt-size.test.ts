import { describe, expect, it } from "vitest";
import { leastTokens } from "../../../src/engines/openai/context-length.ts";

const user = (content: string) => ({ role: "user" as const, content });

describe("leastTokens", () => {
  it("counts the words of all messages, or of the prompt", () => {
    const messages = [user(" one\n two\tthree "), user("four")];
    expect(leastTokens({ messages }, 100)).toBe(4);
    expect(leastTokens({ prompt: "one two" }, 100)).toBe(2);
    expect(leastTokens({ prompt: "" }, 100)).toBe(0);
  });

  it("counts no further than needed", () => {
    const messages = [user("a ".repeat(50)), user("a ".repeat(50))];
    expect(leastTokens({ messages }, 60)).toBe(60);
  });
});
