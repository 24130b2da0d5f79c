import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { responseOf, scriptedEngine, settled } from "../scripted-engine.ts";
import { execution } from "./execution.ts";

describe("answers of the wrong form", () => {
  const answer = {
    line: "duration={duration}",
    slots: { duration: { copyFrom: "text" } },
  };
  const job = { prompt: { prompt: "How long? {{ text }}", answer } };
  const rows = ['{"text":"bake 20 minutes"}'];

  it("are asked again with the answer and the problem shown", async () => {
    const engine = scriptedEngine(1, (_request, before) =>
      responseOf(before === 0 ? "about half an hour" : "duration=20 minutes"),
    );
    const seen: unknown[] = [];
    const inner = engine.infer;
    engine.infer = (request, signal) => {
      seen.push(request.messages);
      return inner(request, signal);
    };
    const { add, end, results } = await execution(rows, engine, { job });
    await add(0);
    await end();
    expect(seen).toHaveLength(2);
    expect(seen[1]).toMatchObject([
      { role: "user" },
      { role: "assistant", content: "about half an hour" },
      { role: "user", content: expect.stringContaining("not right") as unknown },
    ]);
    expect(JSON.stringify(await results(0))).toContain("20 minutes");
  });

  it("end as a dead letter when they stay wrong", async () => {
    const engine = scriptedEngine(1, () => responseOf("about half an hour"));
    const { add, end, letters } = await execution(rows, engine, { job });
    const { usage } = await add(0);
    await end();
    expect(engine.asked).toHaveLength(3);
    const [letter] = await letters(0);
    expect(letter).toMatchObject({ code: "ANSWER_INVALID", attempts: 3 });
    expect(letter!.message).toContain(`(${letter!.file}:${letter!.line})`);
    expect(usage).toMatchObject({ promptTokens: 21, completionTokens: 9 });
  });

  it("are paid for, as the commit says", async () => {
    const engine = scriptedEngine(1, (_request, before) =>
      responseOf(before === 0 ? "about half an hour" : "duration=20 minutes"),
    );
    const { add, end, run } = await execution(rows, engine, { job });
    await add(0);
    await end();
    const [commit] = await run.lines("_sluice/commits/0.20260101t000000z.json");
    const usage = { promptTokens: 14, cachedTokens: 0, completionTokens: 6 };
    expect(commit).toMatchObject({ requests: { planned: 1, answered: 1 }, usage });
  });
});

describe("a row with several requests", () => {
  const job = { prompt: undefined, prompts: { a: "A {{ text }}", b: "B {{ text }}" } };

  it("is told by its first failure, which comes before the others have ended", async () => {
    const engine = scriptedEngine(2);
    const { add, end, letters } = await execution(['{"text":"x"}'], engine, { job });
    await add(0);
    const [first, second] = [...engine.held];
    second!.fail(new SluiceError("REQUEST_REFUSED", "the first failure"));
    await settled();
    first!.fail(new SluiceError("PROMPT_TOO_LONG", "a later one"));
    await settled();
    await end();
    expect(await letters(0)).toMatchObject([{ code: "REQUEST_REFUSED" }]);
  });

  it("that cannot be rendered counts all that would have been asked", async () => {
    const engine = scriptedEngine(2, () => responseOf("yes"));
    const rows = ['{"text":"x"}', "no JSON"];
    const { add, end, run } = await execution(rows, engine, { job });
    await add(0);
    await end();
    const [commit] = await run.lines("_sluice/commits/0.20260101t000000z.json");
    expect(commit).toMatchObject({ requests: { planned: 4, answered: 2 } });
  });
});

describe("answers of any text", () => {
  const texts = [
    "",
    "plain",
    'a "b"',
    "back\\slash",
    "two\nlines",
    "\u007f",
    "é",
    "日本",
    "😀",
    "\ud800",
    "~ !#[]",
  ];
  const rows = texts.map((_, index) => `{"text":"${index}"}`);

  it.each(["in order", "out of order"])("are in the results as they came, %s", async (order) => {
    const engine = scriptedEngine(texts.length, ({ origin }) => responseOf(texts[origin!.index]!));
    const inner = engine.infer;
    engine.infer = async (request, signal) => {
      const isLate = order === "out of order" && request.origin?.index === 0;
      if (isLate) await new Promise((resolve) => setImmediate(resolve));
      return inner(request, signal);
    };
    const { add, end, results } = await execution(rows, engine);
    await add(0);
    await end();
    expect((await results(0)).map((row) => (row as { answer: string }).answer)).toEqual(texts);
  });
});
