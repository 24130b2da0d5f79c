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
});

describe("compactText", () => {
  it("puts every answer into one line", () => {
    expect(compactText(" a\n")).toBe("a");
    expect(compactText(["a", null, []])).toBe("a | – | (none)");
    expect(compactText({ times: ["5 min"], n: 3 })).toBe("times: 5 min; n: 3");
  });
});
