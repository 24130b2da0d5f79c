import { describe, expect, it } from "vitest";
import { openAttempt } from "../attempt/open-attempt.ts";
import { plannedRun } from "../run-fixture.ts";
import { responseOf, scriptedEngine } from "../scripted-engine.ts";
import { execution } from "./execution.ts";

const userOf = (content: string) => ({ role: "user", content });
const answerOf = (content: string) => ({ role: "assistant", content });

describe("turns of a conversation", () => {
  it("asks every turn of a conversation after the model's own answers", async () => {
    const engine = scriptedEngine(4, ({ messages }) => responseOf(`${messages!.length}!`));
    const turns = ["a", "b", "c"].map((content) => ({ role: "user", content }));
    const row = JSON.stringify({
      messages: [...turns.slice(0, 1), answerOf("x"), ...turns.slice(1)],
    });
    const job = { prompt: { type: "chat_template", turns: "every" as const } };
    const { add, end, results } = await execution([row], engine, { job });
    await add(0);
    await end();
    expect(engine.asked).toEqual([0, 0]);
    expect((await results(0))[0]).toMatchObject({ answer: ["1!", "4!"] });
  });

  it("goes on with a conversation where it was stopped", async () => {
    const prompt = { type: "chat_template", turns: "every" as const };
    const messages = [userOf("a"), answerOf("x"), userOf("b")];
    const run = await plannedRun([JSON.stringify({ messages })], { prompt });
    const earlier = await openAttempt(run);
    earlier.notePartlyAnswered(0, 0, { response: responseOf("mine"), attempts: 1 });
    await earlier.close();
    const engine = scriptedEngine(4, (request) => responseOf(JSON.stringify(request.messages)));
    const { add, end, results } = await execution([], engine, { run });
    await add(0);
    await end();
    const [, second] = (await results(0))[0]!.answer as string[];
    expect(JSON.parse(second!)).toEqual([userOf("a"), answerOf("mine"), userOf("b")]);
    expect(engine.asked).toHaveLength(1);
  });
});
