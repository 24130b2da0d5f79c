import { describe, expect, it } from "vitest";
import { promptOptions } from "../../src/prompt/prompt-options.ts";
import { compilePromptSet, withStrippedAnswers } from "../../src/prompt/prompt-set.ts";
import { generationParameters } from "../../src/run/job/generation.ts";

describe("withStrippedAnswers", () => {
  it("strips white space from both ends of every answer, and nothing within", () => {
    const generation = generationParameters({ returnFullText: false }, 1);
    const prompt = promptOptions.parse("Say {{ text }}");
    const set = withStrippedAnswers(compilePromptSet({ prompt, generation }));
    const [request] = set.requests({ text: "hi" }, 0);
    const answers = ["\n one  two \t", "three"].map((text) => ({
      text,
      tokens: 1,
      finishReason: "stop" as const,
    }));
    const usage = { promptTokens: 1, cachedTokens: 0, completionTokens: 2 };
    const accepted = set.accept(request!, { answers, usage, seconds: 0 });
    expect(set.answer([request!], [accepted])).toEqual(["one  two", "three"]);
    expect(accepted.usage).toEqual(usage);
  });
});
