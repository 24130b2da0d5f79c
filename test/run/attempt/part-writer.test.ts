import { writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { loadPapa } from "../../../src/data/formats/csv/parse-fields.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { limits } from "../../../src/foundation/limits.ts";
import type { Commit } from "../../../src/run/attempt/commit.ts";
import { OutcomeTable } from "../../../src/run/attempt/outcomes.ts";
import { PartWriter } from "../../../src/run/attempt/part-writer.ts";
import { attemptPaths } from "../../../src/run/directory/layout.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { memoryRuns, willing } from "../memory-runs.ts";
import {
  changedStorage,
  errorOf,
  inputPath,
  type PlannedRun,
  plannedRun,
  rowsOf,
  withContext,
} from "../run-fixture.ts";
import { settled } from "../scripted-engine.ts";
import { answer, deaf, fail, openAttempt, request } from "./open-attempt.ts";

async function resultsOf(run: PlannedRun, { part }: Commit): Promise<string[]> {
  return (await run.text(part.path)).trimEnd().split("\n");
}

describe("PartWriter", () => {
  it("leaves every byte of a row as it was", async () => {
    const rows = [
      '{"id": 9007199254740993,\t"x":1.0, "text":"é" }',
      '{"text":"\\u00e9\\/", "a":[ 1 , 2 ]}',
      '{"answer":"old", "text":"x", "b":0.10}',
      "{}",
    ];
    const run = await plannedRun(rows);
    const attempt = await openAttempt(run);
    answer(attempt, 0, 1, 2, 3);
    const { commit } = await attempt.commit();
    expect(await resultsOf(run, commit)).toEqual([
      '{"id": 9007199254740993,\t"x":1.0, "text":"é","answer":"answer 0" }'
        .replace('"é","', '"é" ,"')
        .replace('0" }', '0"}'),
      '{"text":"\\u00e9\\/", "a":[ 1 , 2 ],"answer":"answer 1"}',
      '{"answer":"answer 2", "text":"x", "b":0.10}',
      '{"answer":"answer 3"}',
    ]);
  });

  it("keeps the text of what cannot be read, and the row that does not fit a schema", async () => {
    // A library that is loaded meanwhile is no work that the virtual clock knows of.
    await loadPapa();
    const runs = memoryRuns(["id,text", "007,x", "8", "y,z"]);
    const schema = { properties: { id: { type: "integer" } } };
    const job = runs.job({ input: { path: runs.input, format: "csv", schema } });
    await runs.run(willing(), job);
    const letters = await runs.letters(job);
    expect(letters.map(({ row, code, line }) => [row, code, line])).toEqual([
      ["8", "CSV_INVALID", 3],
      [{ id: "y", text: "z" }, "ROW_SCHEMA", 4],
    ]);
    const results = await runs.results(job);
    expect(results).toEqual([{ id: 7, text: "x", answer: "answer 0" }]);
  });

  it("states checksum and size of what it wrote", async () => {
    const run = await plannedRun(rowsOf(3));
    const attempt = await openAttempt(run);
    answer(attempt, 0, 1);
    fail(attempt, 2);
    const { commit } = await attempt.commit();
    for (const file of [commit.part, commit.deadLetters!]) {
      const bytes = await run.storage.read(file.path);
      expect(file).toEqual({ path: file.path, sha256: sha256Hex(bytes), bytes: bytes.length });
    }
  });

  it("holds answers of any length that came before those of earlier rows", async () => {
    const run = await plannedRun(rowsOf(3));
    const attempt = await openAttempt(run);
    const texts = [3, 1_500_000, 900_000].map((length, row) => `${row}`.repeat(length));
    for (const row of [2, 1, 0]) {
      attempt.settleAnswered(row, [request], JSON.stringify(texts[row]));
    }
    const { commit } = await attempt.commit();
    const results = await run.lines(commit.part.path);
    expect(results.map((result) => result.answer === texts[result.id as number])).toEqual([
      true,
      true,
      true,
    ]);
  });

  it("lets no more lines wait for a slow disk than fit into little memory", async () => {
    const run = await plannedRun(rowsOf(60));
    const lengths: number[] = [];
    const storage = changedStorage(run.storage, (inner) => ({
      async writer(path) {
        const writer = await inner.writer(path);
        return {
          ...writer,
          write: async (data) => {
            lengths.push(data.length);
            await settled();
            await writer.write(data);
          },
        };
      },
    }));
    const attempt = await openAttempt(run, 0, withContext(run, { storage }));
    const answer = JSON.stringify("x".repeat(limits.youngTextChars / 8));
    for (let row = 59; row >= 0; row--) attempt.settleAnswered(row, [request], answer);
    await attempt.commit();
    expect(lengths.length).toBeGreaterThan(2);
    expect(Math.max(...lengths)).toBeLessThan(2 * limits.youngTextChars);
  });

  it("names no dead letters where no row failed, and an empty part where all did", async () => {
    const run = await plannedRun(rowsOf(2), { shard: { rows: 1 } });
    const [good, bad] = [await openAttempt(run, 0), await openAttempt(run, 1)];
    answer(good, 0);
    fail(bad, 1);
    expect((await good.commit()).commit.deadLetters).toBeNull();
    const { commit } = await bad.commit();
    expect(commit.part.bytes).toBe(0);
    expect(await run.text(commit.part.path)).toBe("");
  });

  it("writes dead letters with the row and its place, and the answers it has", async () => {
    const rows = ["{}", '{"id":"b","big":9007199254740993}', '{"id":"c", nonsense'];
    const run = await plannedRun(rows, { input: { path: inputPath, id: "id" } });
    const attempt = await openAttempt(run);
    answer(attempt, 0);
    fail(attempt, 1, ["one of two"]);
    const error = new SluiceError("JSON_INVALID", "", { file: inputPath, line: 3 });
    attempt.settleFailed(2, { error, tries: 0, requests: [], planned: 0 });
    const { commit } = await attempt.commit();
    const text = await run.text(commit.deadLetters!.path);
    const [first, second] = await run.lines(commit.deadLetters!.path);
    expect(text).toContain('"big":9007199254740993');
    expect(Object.keys(first!)).toEqual([
      "row",
      "index",
      "file",
      "line",
      "id",
      "code",
      "message",
      "attempts",
      "requests",
      "partial",
    ]);
    expect(first).toMatchObject({
      index: 1,
      file: inputPath,
      line: 2,
      id: "b",
      code: "SERVER_ERROR",
      attempts: 3,
      partial: ["one of two"],
    });
    expect(second).toMatchObject({
      row: '{"id":"c", nonsense',
      line: 3,
      id: null,
      code: "JSON_INVALID",
      attempts: 0,
    });
    expect(second).not.toHaveProperty("partial");
  });

  it("keeps the bytes of rows that are no UTF-8 in their dead letters", async () => {
    const runs = memoryRuns([]);
    const latin1 = Buffer.from('{"text":"d\xe9j\xe0 vu"}', "latin1");
    const withNul = Buffer.from([0x61, 0, 0xff, 0x62]);
    const nul = Buffer.from('{"text":"\0ü"}');
    const cut = Buffer.from([0x7b, 0xe2, 0x82]);
    const lines = [latin1, withNul, nul, Buffer.from('{"text":"fine"}'), cut];
    writeFileSync(runs.input, Buffer.concat(lines.flatMap((line) => [line, Buffer.from("\n")])));
    await runs.run();
    const letters = await runs.letters();
    expect(letters.map(({ code }) => code)).toEqual([
      "UTF8_INVALID",
      "NUL_BYTE",
      "NUL_BYTE",
      "UTF8_INVALID",
    ]);
    expect(letters[0]?.row).toBe('{"text":"d\uFFFDj\uFFFD vu"}');
    const bytesOf = ({ row, rowBase64 }: Record<string, unknown>) =>
      rowBase64 === undefined ? Buffer.from(row as string) : Buffer.from(`${rowBase64}`, "base64");
    expect(letters.map(bytesOf)).toEqual([latin1, withNul, nul, cut]);
    expect(letters[2]).not.toHaveProperty("rowBase64");
  });

  it("keeps the facts that the job asks for, one entry a request", async () => {
    const output = { path: "/run/out", field: "out", include: ["usage", "attempts"] as const };
    const run = await plannedRun(['{"outMetadata":0}'], {
      output: { ...output, include: [...output.include] },
    });
    const attempt = await openAttempt(run);
    const second = { ...request, cachedTokens: 2, tokens: [1, 2] };
    attempt.settleAnswered(0, [request, second], '["a","ü"]');
    const { commit } = await attempt.commit();
    expect(await run.lines(commit.part.path)).toEqual([
      {
        outMetadata: [
          { usage: { promptTokens: 7, cachedTokens: 0, completionTokens: 3 }, attempts: 1 },
          {
            usage: { promptTokens: 7, cachedTokens: 2, completionTokens: 3, answerTokens: [1, 2] },
            attempts: 1,
          },
        ],
        out: ["a", "ü"],
      },
    ]);
  });

  it("keeps log-probabilities: those of one answer, or a list of those of several", async () => {
    const run = await plannedRun(["{}"], {
      generation: { logprobs: 1 },
      output: { path: "/run/out", include: ["logprobs"] },
    });
    const attempt = await openAttempt(run);
    const tokens = [{ token: "ü", logprob: -0.5, alternatives: [{ token: "ü", logprob: -0.5 }] }];
    const one = { ...request, logprobs: [tokens] };
    const two = { ...request, tokens: [1, 1], logprobs: [tokens, []] };
    attempt.settleAnswered(0, [one, two], '["a",["b","c"]]');
    const { commit } = await attempt.commit();
    const [line] = await run.lines(commit.part.path);
    expect(line).toHaveProperty("answerMetadata", [
      { logprobs: tokens },
      { logprobs: [tokens, []] },
    ]);
  });

  it("takes rows and their answers over slices, big answers and far places alike", async () => {
    const run = await plannedRun(rowsOf(40));
    const attempt = await openAttempt(run);
    const textOf = (row: number) => `${row}${"ä".repeat(row % 3 === 0 ? 150_000 : 5)}`;
    for (let row = 39; row >= 0; row--) {
      attempt.settleAnswered(row, [request], JSON.stringify(textOf(row)));
    }
    const { commit } = await attempt.commit();
    const found = await run.lines(commit.part.path);
    expect(found.every((row, at) => row.id === at && row.answer === textOf(at))).toBe(true);
    expect(found).toHaveLength(40);
  });

  it("notes rows whose answer was cut, and the hash of each id once", async () => {
    const run = await plannedRun(rowsOf(5), { input: { path: inputPath, id: "id" } });
    const attempt = await openAttempt(run);
    const cut = { ...request, finishReason: "length" };
    for (const row of [4, 1, 3]) attempt.settleAnswered(row, [cut], '"cut"');
    answer(attempt, 0);
    fail(attempt, 2);
    const { commit } = await attempt.commit();
    expect(await run.text(commit.cutRows!.path)).toBe("1,3-4");
    expect(commit.ids!.bytes).toBe(5 * 16);
  });

  it("notes ids only of rows that are asked", async () => {
    const changes = { input: { path: inputPath, id: "id" }, sample: 2 };
    const run = await plannedRun(rowsOf(6), changes);
    const attempt = await openAttempt(run);
    for await (const rows of attempt.readOpenRows()) answer(attempt, ...rows.map((it) => it.index));
    const { commit } = await attempt.commit();
    expect(commit.rows.total).toBe(2);
    expect(commit.ids!.bytes).toBe(2 * 16);
  });

  describe("of rows that settle while they are at hand", () => {
    const rows = [...rowsOf(9), "nonsense", '{"answer":1,"id":10}'];
    const jobs: [string, Partial<JobInput>][] = [
      ["plain", {}],
      ["with ids", { input: { path: inputPath, id: "id" } }],
      ["with facts beside the answer", { output: { path: "/run/out", include: ["usage"] } }],
      ["of a sample", { sample: 6 }],
    ];
    const orders: [string, (row: number) => number][] = [
      ["in order", (row) => row],
      ["in order at first", (row) => (row < 4 ? row : -row)],
      ["backwards", (row) => -row],
    ];

    /** Settles every row in that order; says the text of each file of the commit. */
    async function filesOf(
      job: Partial<JobInput>,
      place: (row: number) => number,
      isHeld: boolean,
    ) {
      const run = await plannedRun(rows, job);
      let opened = 0;
      const openFile: typeof run.context.openFile = (path) => {
        opened++;
        return run.context.openFile(path);
      };
      const attempt = await openAttempt(run, 0, { ...run.context, openFile });
      const open = (await Array.fromAsync(attempt.readOpenRows())).flat();
      for (const row of open.toSorted((a, b) => place(a.index) - place(b.index))) {
        const held = isHeld ? row : undefined;
        const { index, error } = row;
        if (error || index === 2) {
          const failure = error ?? new SluiceError("SERVER_ERROR", "down");
          attempt.settleFailed(index, { error: failure, tries: 1, requests: [], planned: 1 }, held);
        } else attempt.settleAnswered(index, [request], JSON.stringify(`ä ${index}`), held);
      }
      const { part, deadLetters, ids, cutRows } = (await attempt.commit()).commit;
      const named = [part, deadLetters, ids, cutRows].filter((file) => file !== null);
      const files = await Promise.all(named.map(({ path }) => run.storage.read(path)));
      expect(files.map(sha256Hex)).toEqual(named.map(({ sha256 }) => sha256));
      return { texts: files.map((bytes) => Buffer.from(bytes).toString("latin1")), opened };
    }

    describe.each(jobs)("%s", (_, job) => {
      it.each(orders)("%s writes what it would have joined at the end", async (_, place) => {
        const held = await filesOf(job, place, true);
        expect(held.texts).toEqual((await filesOf(job, place, false)).texts);
        expect(held.texts[0]!.split("\n").length).toBeGreaterThan(4);
      });
    });

    it("reads the input a second time only where they did not, or where a row failed", async () => {
      expect((await filesOf({}, (row) => row, true)).opened).toBe(2);
      expect((await filesOf({}, (row) => -row, true)).opened).toBe(2);
      const run = await plannedRun(rowsOf(2));
      let opened = 0;
      const openFile: typeof run.context.openFile = (path) => {
        opened++;
        return run.context.openFile(path);
      };
      const attempt = await openAttempt(run, 0, { ...run.context, openFile });
      for (const row of (await Array.fromAsync(attempt.readOpenRows())).flat()) {
        attempt.settleAnswered(row.index, [request], '"x"', row);
      }
      expect((await attempt.commit()).commit.rowHashes).toBeUndefined();
      expect(opened).toBe(1);
    });
  });

  it("leaves nothing of an attempt that is given up after some lines were written", async () => {
    const run = await plannedRun(rowsOf(30));
    const attempt = await openAttempt(run);
    const answerJson = JSON.stringify("x".repeat(100_000));
    for await (const rows of attempt.readOpenRows()) {
      for (const row of rows.slice(0, 25))
        attempt.settleAnswered(row.index, [request], answerJson, row);
      expect(attempt.isFull).toBe(true);
    }
    await attempt.close();
    expect(await run.paths(attemptPaths(0, run.plan, attempt.id).part)).toEqual([]);
  });

  it("refuses to write a part that lacks a row", async () => {
    const run = await plannedRun(rowsOf(3));
    const attempt = await openAttempt(run);
    answer(attempt, 0, 1, 2);
    await attempt.close();
    const task = await run.task(0);
    const table = new OutcomeTable(task);
    for (const row of [0, 1, 2]) table.settle(row, "answered", { offset: 0, bytes: 1 });
    const more = { ...task, rows: 4 };
    const error = await errorOf(new PartWriter(run.context, more, attempt.id, deaf).finish(table));
    expect(error.code).toBe("ROWS_UNBALANCED");
    expect(await run.paths(attemptPaths(0, run.plan, attempt.id).part)).toEqual([]);
  });

  it("says that the run is damaged where the journal is too short", async () => {
    const run = await plannedRun(rowsOf(1));
    const attempt = await openAttempt(run);
    await attempt.close();
    const table = new OutcomeTable(await run.task(0));
    table.settle(0, "answered", { offset: 0, bytes: limits.readChunkBytes });
    const error = await errorOf(
      new PartWriter(run.context, await run.task(0), attempt.id, deaf).finish(table),
    );
    expect(error.code).toBe("RUN_DAMAGED");
  });
});
