import { describe, expect, it } from "vitest";
import type { Json } from "../../../src/foundation/json.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { JournalWriter, readJournal } from "../../../src/run/attempt/journal.ts";
import type { JournalLine } from "../../../src/run/attempt/journal-line.ts";
import { OutcomeTable } from "../../../src/run/attempt/outcomes.ts";
import { replayJournals } from "../../../src/run/attempt/replay.ts";
import type { EarlierEnds } from "../../../src/run/attempt/suspects.ts";
import { attemptPaths, stagedPath } from "../../../src/run/directory/layout.ts";
import { type PlannedRun, plannedRun, rowsOf, withContext } from "../run-fixture.ts";
import { responseOf } from "../scripted-engine.ts";

const request = {
  promptTokens: 7,
  tokens: [3],
  seconds: 0.25,
  finishReason: "stop",
  attempts: 1,
};

const answered = (index: number, answer: string, finishReason = "stop"): JournalLine => ({
  index,
  outcome: "answered",
  requests: [{ ...request, finishReason }],
  answer,
});
const failed = (index: number, code: "SERVER_ERROR" | "ROW_KILLS_ENGINE" = "SERVER_ERROR") =>
  ({
    index,
    outcome: "failed",
    error: { code, message: "why" },
    attempts: 3,
    requests: [],
  }) satisfies JournalLine;
const asked = (together: number, ...indexes: number[]): JournalLine[] =>
  indexes.map((index) => ({ index, outcome: "asked", together }));

/** Puts the journal of an earlier attempt there. */
async function leave(run: PlannedRun, attempt: string, lines: readonly JournalLine[], torn = "") {
  const { journal } = attemptPaths(0, run.plan, attempt);
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  await run.storage.replace(journal, Buffer.from(text + torn));
}

/** Replays all that was left, as attempt `id` does. */
async function replay(run: PlannedRun, id = "z", changes = {}, ends: EarlierEnds = {}) {
  const context = withContext(run, changes);
  const task = await run.task(0);
  const outcomes = new OutcomeTable(task);
  const path = attemptPaths(0, context.plan, id).journal;
  const journal = await JournalWriter.open(run.storage, path, run.clock, {
    wholeLines: false,
    onFailure() {},
    onDrain() {},
  });
  const replayed = await replayJournals(context, task, id, outcomes, journal, ends);
  await journal.close();
  const own: JournalLine[] = [];
  for await (const { line } of readJournal(run.storage, path)) own.push(line);
  return { ...replayed, outcomes, own };
}

describe("replayJournals", () => {
  it("keeps replies of rows that are still open, the first of two", async () => {
    const run = await plannedRun(rowsOf(4));
    const partly = (index: number, request: number, text: string): JournalLine => {
      const response = { ...responseOf(text), seconds: 1 };
      return { index, outcome: "partly-answered", request, response, attempts: 1 };
    };
    await leave(run, "a", [partly(0, 0, "x"), partly(1, 0, "one"), answered(0, "done")]);
    await leave(run, "b", [partly(1, 0, "later"), partly(1, 2, "three"), partly(0, 1, "late")]);
    const { replies, own } = await replay(run);
    expect(own).toHaveLength(1);
    expect([...replies.keys()]).toEqual([1]);
    const texts = [...replies.get(1)!].map(([at, { response }]) => [at, response.answers[0]!.text]);
    expect(texts).toEqual([
      [0, "one"],
      [2, "three"],
    ]);
  });

  it("takes over rows that were asked as one together or not at all", async () => {
    const run = await plannedRun(rowsOf(8));
    const batch = (index: number, others: string, answer: Json[]): JournalLine => ({
      ...{
        index,
        outcome: "answered",
        others,
        results: answer.length,
        requests: [request],
        answer,
      },
    });
    await leave(run, "a", [batch(1, "2-3", [{ n: 1 }, { n: 2 }])]);
    // The same batch with the row that failed in the first attempt: its results hold these rows.
    await leave(run, "b", [batch(0, "1-3", [{ n: 3 }]), batch(4, "5", [{ n: 4 }])]);
    const { counts, outcomes, own } = await replay(run);
    expect(counts.rows).toMatchObject({ answered: 2, filtered: 3, results: 3 });
    expect(Array.from({ length: 8 }, (_, row) => outcomes.of(row))).toEqual([
      ...["open", "answered", "filtered", "filtered", "answered", "filtered", "open", "open"],
    ]);
    expect(own).toMatchObject([
      { index: 1, others: "2-3" },
      { index: 4, others: "5" },
    ]);
  });

  it("takes over answers into its own journal, with their counts and places", async () => {
    const run = await plannedRun(rowsOf(4));
    await leave(run, "a", [answered(2, 'the "answer":2'), answered(0, "é", "length")]);
    const { resumed, counts, usage, own, outcomes } = await replay(run).then((it) => ({
      ...it,
      usage: it.counts.usage,
    }));
    expect(resumed).toBe(2);
    expect(counts.rows).toMatchObject({ answered: 2, results: 2, failed: 0 });
    expect(counts.requests).toEqual({ planned: 2, answered: 2 });
    expect(usage).toEqual({ promptTokens: 14, cachedTokens: 0, completionTokens: 6 });
    expect(own).toEqual([answered(2, 'the "answer":2'), answered(0, "é", "length")]);
    expect(outcomes.cut).toEqual([0]);
    const text = await run.text(attemptPaths(0, run.plan, "z").journal);
    const { offset, bytes } = outcomes.place(0);
    expect(
      Buffer.from(text)
        .subarray(offset, offset + bytes)
        .toString(),
    ).toBe('"é"');
  });

  it("counts the tokens of answers of the wrong form, however often attempts follow", async () => {
    const run = await plannedRun(rowsOf(2));
    const usage = { promptTokens: 5, cachedTokens: 1, completionTokens: 2 };
    await leave(run, "a", [{ index: 0, outcome: "invalid", usage }, answered(0, "right")]);
    const sum = { promptTokens: 12, cachedTokens: 1, completionTokens: 5 };
    expect((await replay(run, "b")).counts.usage).toEqual(sum);
    expect((await replay(run, "c")).counts.usage).toEqual(sum);
  });

  it("counts cached tokens, and nothing of what was taken from an equal request", async () => {
    const run = await plannedRun(rowsOf(2));
    const line = (index: number, facts: object): JournalLine => ({
      ...{ index, outcome: "answered", answer: "yes" },
      requests: [{ ...request, ...facts }],
    });
    await leave(run, "a", [line(0, { cachedTokens: 4 }), line(1, { reused: true })]);
    const { usage, requests } = (await replay(run)).counts;
    expect(usage).toEqual({ promptTokens: 7, cachedTokens: 4, completionTokens: 3 });
    expect(requests).toEqual({ planned: 2, answered: 2, reused: 1 });
  });

  it("takes the first of two answers by attempt id, whatever was written first", async () => {
    const run = await plannedRun(rowsOf(2));
    await leave(run, "b", [answered(0, "second")]);
    await leave(run, "a", [answered(0, "first"), answered(0, "again")]);
    const { own, resumed } = await replay(run);
    expect(own).toEqual([answered(0, "first")]);
    expect(resumed).toBe(1);
  });

  it("asks dead letters again", async () => {
    const run = await plannedRun(rowsOf(2));
    await leave(run, "a", [failed(0), answered(1, "yes")]);
    const { outcomes, counts } = await replay(run);
    expect(outcomes.isOpen(0)).toBe(true);
    expect(counts.rows.failed).toBe(0);
    expect(counts.errors).toEqual({});
  });

  it("takes nothing from a torn line on, and goes on with the next journal", async () => {
    const run = await plannedRun(rowsOf(4));
    const torn = JSON.stringify(answered(1, "torn"));
    await leave(run, "a", [answered(0, "yes")], torn);
    await leave(run, "b", [answered(2, "yes")], torn.slice(0, 20));
    const { own } = await replay(run);
    expect(own.map(({ index }) => index)).toEqual([0, 2]);
  });

  it("never reads its own journal, another generation's or another task's", async () => {
    const run = await plannedRun(rowsOf(4), { shard: { rows: 2 } });
    await leave(run, "z", [answered(0, "own")]);
    const second = withContext(run, { plan: { ...run.plan, generation: 2 } });
    const far = [attemptPaths(1, run.plan, "a"), attemptPaths(0, second.plan, "a")];
    for (const { journal } of far) {
      await run.storage.replace(journal, Buffer.from(`${JSON.stringify(answered(1, "far"))}\n`));
    }
    const { resumed } = await replay(run);
    expect(resumed).toBe(0);
  });

  it("does not take an answer for a row that is not asked", async () => {
    const run = await plannedRun(rowsOf(2));
    await leave(run, "a", [answered(7, "beyond"), answered(-1, "before")]);
    expect((await replay(run)).own).toEqual([]);
  });
});

describe("rows that were with an engine that died", () => {
  it("are asked half as many at once", async () => {
    const run = await plannedRun(rowsOf(8));
    await leave(run, "a", asked(4, 0, 1, 2, 3));
    const { suspected } = await replay(run);
    expect(suspected).toEqual({ rows: new Set([0, 1, 2, 3]), together: 2 });
  });

  it("are suspected no longer once they are answered", async () => {
    const run = await plannedRun(rowsOf(8));
    await leave(run, "a", [...asked(2, 0, 1), answered(0, "yes"), answered(1, "yes")]);
    expect((await replay(run)).suspected.rows).toEqual(new Set());
  });

  it("fail after as many deaths alone as a row may cause", async () => {
    const run = await plannedRun(rowsOf(4));
    for (const attempt of ["a", "b"]) await leave(run, attempt, asked(1, 2));
    expect((await replay(run)).outcomes.isOpen(2)).toBe(true);
    await leave(run, "c", asked(1, 2));
    const { outcomes, own, counts } = await replay(run);
    expect(outcomes.of(2)).toBe("failed");
    expect(own).toMatchObject([
      { index: 2, error: { code: "ROW_KILLS_ENGINE" }, attempts: limits.maxRowKills },
    ]);
    expect(counts.rows.failed).toBe(1);
    expect(Object.keys(counts.errors)).toEqual(["ROW_KILLS_ENGINE"]);
  });

  it("are still open if they are programs whose results were staged out", async () => {
    const run = await plannedRun(rowsOf(4), { model: { engine: "program" }, prompt: undefined });
    await run.storage.replace(stagedPath(2, run.plan), Buffer.from("{}"));
    for (const attempt of ["a", "b", "c", "d"]) await leave(run, attempt, asked(1, 1, 2));
    const { outcomes, suspected } = await replay(run);
    expect([outcomes.of(1), outcomes.isOpen(2)]).toEqual(["failed", true]);
    expect(suspected).toEqual({ rows: new Set([2]), together: 1 });
  });

  it("fail with all their requests, and keep the answers that they had", async () => {
    const run = await plannedRun(rowsOf(4));
    const reply = { response: responseOf("part"), attempts: 1 };
    const part = { index: 2, outcome: "partly-answered" as const, request: 0, ...reply };
    const lines = asked(1, 2).map((line) => ({ ...line, planned: 5 }) as JournalLine);
    await leave(run, "a", [part, ...lines]);
    for (const attempt of ["b", "c"]) await leave(run, attempt, lines);
    for (const id of ["d", "e"]) {
      const { own, counts } = await replay(run, id);
      expect(counts.requests).toEqual({ planned: 5, answered: 1 });
      expect(counts.usage.completionTokens).toBe(3);
      expect(own).toMatchObject([{ index: 2, planned: 5, requests: [{ tokens: [3] }] }]);
    }
  });

  it("do not count as alone where others were asked beside them", async () => {
    const run = await plannedRun(rowsOf(4));
    for (const attempt of ["a", "b", "c", "d"]) await leave(run, attempt, asked(2, 1, 2));
    expect((await replay(run)).outcomes.open).toBe(4);
  });

  it("stay given up: another killer in the task must not bring them back", async () => {
    const run = await plannedRun(rowsOf(4));
    for (const attempt of ["a", "b", "c"]) await leave(run, attempt, asked(1, 1));
    await leave(run, "d", [failed(1, "ROW_KILLS_ENGINE"), ...asked(1, 2)]);
    const { outcomes, suspected } = await replay(run);
    expect(outcomes.of(1)).toBe("failed");
    expect(suspected).toEqual({ rows: new Set([2]), together: 1 });
  });

  it("are not to blame where their coordinator ended the worker, now and later", async () => {
    const run = await plannedRun(rowsOf(4));
    for (const attempt of ["a", "b", "c"]) await leave(run, attempt, asked(1, 2));
    const { outcomes, own } = await replay(run, "d", {}, { spared: "c" });
    expect(outcomes.isOpen(2)).toBe(true);
    expect(own).toEqual([{ index: 2, outcome: "returned" }]);
    expect((await replay(run, "e")).outcomes.isOpen(2)).toBe(true);
    await leave(run, "f", asked(1, 2));
    const later = await replay(run, "g");
    expect(later.outcomes.of(2)).toBe("failed");
    expect(later.own[0]).toMatchObject({ error: { code: "ROW_KILLS_ENGINE" } });
  });
});
