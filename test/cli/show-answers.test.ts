import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { compactText, showAnswers } from "../../src/cli/show-answers.ts";
import { carriedOut, preparedRun, scratchFolder } from "../run/whole-run.ts";
import { stubIo } from "./io-stub.ts";

describe("showAnswers", () => {
  it("prints the first answers, a line each, no wider than the terminal", async () => {
    const run = preparedRun(scratchFolder());
    await carriedOut(run);
    const { io, written } = stubIo({ columns: () => 30 });
    await showAnswers(run.location.directory, run.job, 2, io);
    await setImmediate();
    const [title, ...lines] = written.stderr.trimEnd().split("\n");
    expect(title).toMatch(/^id {2}answer/);
    expect(lines).toHaveLength(2);
    expect(lines[1]).toMatch(/^1 {3}\S/);
    expect(written.stderr.split("\n").every((line) => line.length <= 30)).toBe(true);
  });

  it("counts results where rows have no id, and shows three unless told otherwise", async () => {
    const run = preparedRun(scratchFolder());
    await carriedOut(run);
    const job = { ...run.job, input: run.job.input.map(({ id: _id, ...source }) => source) };
    const { io, written } = stubIo();
    await showAnswers(run.location.directory, job, Number.NaN, io);
    await setImmediate();
    const lines = written.stderr.trimEnd().split("\n");
    expect(lines.map((line) => line.split(" ")[0])).toEqual(["result", "0", "1", "2"]);
  });

  it("gives each of several prompts a line of its own", async () => {
    const rows = `${JSON.stringify({ id: "a", text: "Bake 5 minutes." })}\n`;
    const slots = { time: { copyFrom: "text", pattern: "[0-9]+ minutes" } };
    const run = preparedRun(scratchFolder(), rows, {
      prompt: undefined,
      prompts: {
        plain: "Say {{ text }}",
        timed: { prompt: "?", answer: { line: "{time}", slots } },
      },
    });
    await carriedOut(run);
    const { io, written } = stubIo();
    await showAnswers(run.location.directory, run.job, 1, io);
    await setImmediate();
    const lines = written.stderr.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^id {2}prompt {2}answer$/);
    expect(lines[1]).toMatch(/^a {3}plain {3}\S/);
    expect(lines[2]).toMatch(/^ {4}timed {3}(none|5 minutes)$/);
    expect(lines).toHaveLength(3);
  });
});

describe("compactText", () => {
  it("puts every answer into one line", () => {
    expect(compactText(" a\n")).toBe("a");
    expect(compactText(["a", null, []])).toBe("a | – | (none)");
    expect(compactText({ times: ["5 min"], n: 3 })).toBe("times: 5 min; n: 3");
    expect(compactText({ text: "t=5 min", t: "5 min", d: null })).toBe("t=5 min");
  });
});
