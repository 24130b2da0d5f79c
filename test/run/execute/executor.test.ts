import { describe, expect, it } from "vitest";
import type { InputRow } from "../../../src/data/row.ts";
import { sleep } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { maxJournalBufferBytes } from "../../../src/run/attempt/journal.ts";
import { answer, openAttempt } from "../attempt/open-attempt.ts";
import { changedStorage, plannedRun, rowsOf } from "../run-fixture.ts";
import { responseOf, scriptedEngine, settled } from "../scripted-engine.ts";
import { execution } from "./execution.ts";

const perTask = (rows: number) => ({ shard: { rows } });
const answered = (index: number) => responseOf(`answer ${index}`);

describe("feeding", () => {
  it("never gives the engine more than it can hold, and fills each place at once", async () => {
    const engine = scriptedEngine(3);
    const { add, end, results } = await execution(rowsOf(10), engine);
    await add(0);
    expect(engine.held.map(({ request }) => request.index)).toEqual([0, 1, 2]);
    engine.held[1]!.answer();
    await settled();
    expect(engine.held.map(({ request }) => request.index)).toEqual([0, 2, 3]);
    while (engine.held.length > 0) {
      engine.held.at(-1)!.answer();
      await settled();
    }
    await end();
    expect(engine.most).toBe(3);
    expect((await results(0)).map(({ answer }) => answer)).toEqual(
      rowsOf(10).map((_, row) => `answer ${row}`),
    );
  });

  it("follows an engine that comes to hold more, and then less", async () => {
    const engine = scriptedEngine(2);
    const { add } = await execution(rowsOf(20), engine);
    await add(0);
    Object.assign(engine, { capacity: 5 });
    engine.held[0]!.answer();
    await settled();
    expect(engine.held).toHaveLength(5);
    Object.assign(engine, { capacity: 3 });
    for (const left of [4, 3, 3]) {
      engine.held[0]!.answer();
      await settled();
      expect(engine.held).toHaveLength(left);
    }
  });

  it("takes rows of the older task first, and of the next while that drains", async () => {
    const engine = scriptedEngine(3);
    const { add } = await execution(rowsOf(8), engine, { job: perTask(4) });
    await add(1);
    await add(0);
    expect(engine.asked).toEqual([4, 5, 6]);
    engine.answerAll();
    await settled();
    expect(engine.asked).toEqual([4, 5, 6, 7, 0, 1]);
  });

  it("says that it is low when few rows wait, and again when the engine has room", async () => {
    const engine = scriptedEngine(2);
    const { add, low, executor } = await execution(rowsOf(6), engine);
    const attempt = await add(0);
    const steps: [waiting: number, low: number][] = [];
    while (engine.held.length > 0) {
      steps.push([executor.waitingOf(attempt), low()]);
      engine.held[0]!.answer();
      await settled();
    }
    expect(steps).toEqual([
      [4, 0],
      [3, 0],
      [2, 0],
      [1, 1],
      [0, 1],
      [0, 2],
    ]);
    expect(executor.inFlightOf(attempt)).toBe(0);
  });

  it("asks every prompt of a row, and answers with all of them", async () => {
    const engine = scriptedEngine(4, ({ index, promptName }) =>
      responseOf(`${promptName} ${index}`),
    );
    const prompts = { first: "1 {{ text }}", second: "2 {{ text }}" };
    const job = { prompt: undefined, prompts };
    const { add, end, results } = await execution(rowsOf(3), engine, { job });
    await add(0);
    await end();
    expect(engine.asked).toHaveLength(6);
    expect((await results(0))[2]).toMatchObject({
      answer: { first: "first 2", second: "second 2" },
    });
  });

  it("asks a forEach within capacity, in order, and a row of no element not at all", async () => {
    const engine = scriptedEngine(4, ({ element }) => responseOf(`e${element}`));
    const rows = ['{"list":[]}', `{"list":${JSON.stringify("x".repeat(50).split(""))}}`];
    const job = { prompt: { prompt: "Say {{ item }}", forEach: "list" } };
    const { add, end, results } = await execution(rows, engine, { job });
    await add(0);
    await end();
    expect(engine.asked).toHaveLength(50);
    expect(engine.most).toBeLessThanOrEqual(4);
    expect((await results(0)).map(({ answer }) => answer)).toEqual([
      [],
      Array.from({ length: 50 }, (_, element) => `e${element}`),
    ]);
  });

  it("keeps what was answered of a row that is stopped halfway", async () => {
    const prompts = { first: "1", second: "2", third: "3" };
    const run = await plannedRun(rowsOf(1), { prompt: undefined, prompts });
    const before = scriptedEngine(3);
    const stopped = await execution([], before, { run });
    const attempt = await stopped.add(0);
    const [first, , third] = before.held;
    third!.answer("three");
    first!.answer("one");
    await settled();
    stopped.executor.remove(attempt, new SluiceError("ENGINE_DIED", ""));
    await attempt.close();

    const engine = scriptedEngine(3, ({ promptName }) => responseOf(`again ${promptName}`));
    const { add, end, results } = await execution([], engine, { run });
    await add(0);
    await end();
    expect(engine.asked).toHaveLength(1);
    expect(await results(0)).toMatchObject([
      { answer: { first: "one", second: "again second", third: "three" } },
    ]);
  });

  it("settles a row of which every request was answered before, without asking", async () => {
    const prompts = { first: "1", second: "2" };
    const run = await plannedRun(rowsOf(1), { prompt: undefined, prompts });
    for (const request of [0, 1]) {
      const earlier = await openAttempt(run);
      const reply = { response: responseOf(`part ${request}`), attempts: 1 };
      earlier.notePartlyAnswered(0, request, reply);
      await earlier.close();
    }
    const engine = scriptedEngine(2);
    const { add, end, results } = await execution([], engine, { run });
    await add(0);
    await end();
    expect(engine.asked).toEqual([]);
    expect(await results(0)).toMatchObject([{ answer: { first: "part 0", second: "part 1" } }]);
  });

  it("asks rows in the order that is arranged, and gives results in input order", async () => {
    const engine = scriptedEngine(1, ({ index }) => responseOf(`answer ${index}`));
    const arrange = async function* (batches: AsyncIterable<InputRow[]>) {
      for await (const rows of batches) yield rows.toReversed();
    };
    const { add, end, results } = await execution(rowsOf(4), engine, { arrange });
    await add(0);
    await end();
    expect(engine.asked).toEqual([3, 2, 1, 0]);
    expect((await results(0)).map(({ id }) => id)).toEqual([0, 1, 2, 3]);
  });

  it("completes a task whose rows were all answered before", async () => {
    const engine = scriptedEngine(2);
    const run = await plannedRun(rowsOf(2));
    const earlier = await openAttempt(run);
    answer(earlier, 0, 1);
    await earlier.close();
    const { add, end, completed } = await execution([], engine, { run });
    await add(0);
    await end();
    expect(engine.asked).toEqual([]);
    expect(completed).toEqual([0]);
  });

  it("asks no more while the journal cannot keep up", async () => {
    const engine = scriptedEngine(2);
    let release = () => {};
    const run = await plannedRun(rowsOf(4));
    run.context.storage = changedStorage(run.storage, (inner) => ({
      async appender(path) {
        const appender = await inner.appender(path);
        const append = async (data: Uint8Array) => {
          await new Promise<void>((resolve) => {
            release = resolve;
          });
          await appender.append(data);
        };
        return { ...appender, append };
      },
    }));
    const { add } = await execution([], engine, { run });
    const attempt = await add(0);
    const text = "x".repeat(maxJournalBufferBytes * 20);
    for (const held of [...engine.held]) held.answer(text);
    await settled();
    expect(attempt.isFull).toBe(true);
    expect(engine.asked).toEqual([0, 1]);
    release();
    await settled();
    expect(engine.asked).toEqual([0, 1]);
    release();
    await settled();
    expect(engine.asked).toEqual([0, 1, 2, 3]);
  });
});

describe("failures of a request", () => {
  it("that may pass are tried again after a pause, each later than the one before", async () => {
    const times: number[] = [];
    const engine = scriptedEngine(1, ({ index }) => {
      times.push(clock.monotonic());
      return times.length < 3 ? new SluiceError("SERVER_ERROR") : answered(index);
    });
    const { add, end, run, results } = await execution(rowsOf(1), engine);
    const { clock } = run;
    await add(0);
    await end();
    expect(times).toHaveLength(3);
    expect(times[1]! - times[0]!).toBeLessThanOrEqual(limits.backoffBaseMs);
    expect(times[1]).toBeGreaterThan(times[0]!);
    expect(times[2]! - times[1]!).toBeLessThanOrEqual(limits.backoffBaseMs * 2);
    expect(await results(0)).toMatchObject([{ answer: "answer 0" }]);
  });

  it("wait as long as the server asks", async () => {
    const refusal = new SluiceError("SERVER_ERROR", "", { retryAfterMs: 30_000 });
    const engine = scriptedEngine(1, ({ index }, before) => (before ? answered(index) : refusal));
    const { add, end, run } = await execution(rowsOf(1), engine);
    await add(0);
    await end();
    expect(run.clock.monotonic()).toBeGreaterThanOrEqual(30_000);
  });

  it("hold up no other row while they wait", async () => {
    const engine = scriptedEngine(1, ({ index }, before) =>
      index === 0 && before === 0 ? new SluiceError("TIMEOUT") : answered(index),
    );
    const { add, end } = await execution(rowsOf(4), engine);
    await add(0);
    await end();
    expect(engine.asked).toEqual([0, 1, 2, 3, 0]);
  });

  it("end as a dead letter after as many tries as a request has", async () => {
    const engine = scriptedEngine(2, ({ index }) =>
      index === 1 ? new SluiceError("SERVER_ERROR", "always") : answered(index),
    );
    const { add, end, letters, results } = await execution(rowsOf(3), engine);
    await add(0);
    await end();
    expect(engine.asked.filter((row) => row === 1)).toHaveLength(3);
    expect(await letters(0)).toMatchObject([{ index: 1, code: "SERVER_ERROR", attempts: 3 }]);
    expect((await results(0)).map(({ id }) => id)).toEqual([0, 2]);
  });

  it("that are the row's own are not tried again, and keep its other answers", async () => {
    const engine = scriptedEngine(1, ({ promptName }) =>
      promptName === "second" ? new SluiceError("PROMPT_TOO_LONG") : responseOf("one"),
    );
    const prompts = { first: "{{ text }}", second: "{{ text }}", third: "{{ text }}" };
    const { add, end, letters } = await execution(rowsOf(1), engine, {
      job: { prompt: undefined, prompts },
    });
    await add(0);
    await end();
    expect(engine.asked).toHaveLength(2);
    expect(await letters(0)).toMatchObject([
      {
        code: "PROMPT_TOO_LONG",
        attempts: 1,
        partial: { first: "one", second: null, third: null },
      },
    ]);
  });

  it("are told without secrets, whatever was thrown", async () => {
    const server = { status: 400, message: "your key s3cret", code: null };
    const engine = scriptedEngine(2, ({ index }) =>
      index === 0
        ? new SluiceError("PREDICTION_FAILED", "it said s3cret")
        : new SluiceError("REQUEST_REFUSED", "", { server }),
    );
    const { add, end, letters } = await execution(rowsOf(2), engine);
    await add(0);
    await end();
    expect(await letters(0)).toMatchObject([
      { code: "PREDICTION_FAILED", message: expect.stringContaining("it said [redacted]") },
      { code: "REQUEST_REFUSED", server: { status: 400, message: "your key [redacted]" } },
    ]);
    const faulty = scriptedEngine(1, () => new TypeError("s3cret is not a function"));
    const other = await execution(rowsOf(1), faulty);
    await other.add(0);
    await other.end();
    expect(other.failures[0]?.error.message).toContain("[redacted] is not a function");
  });

  it("of scope run end the attempt at once", async () => {
    const engine = scriptedEngine(2, ({ index }) =>
      index === 1 ? new SluiceError("AUTHENTICATION_FAILED") : undefined,
    );
    const { add, end, failures } = await execution(rowsOf(4), engine);
    await add(0);
    await end();
    expect(failures).toMatchObject([{ task: 0, error: { code: "AUTHENTICATION_FAILED" } }]);
    expect(engine.held).toEqual([]);
  });
});

describe("rows at fault", () => {
  it("become dead letters with their place, and are never asked", async () => {
    const engine = scriptedEngine(2, ({ index }) => answered(index));
    const rows = ["{nonsense", '{"other":1}', '{"text":"fine"}'];
    const { add, end, letters } = await execution(rows, engine);
    await add(0);
    await end();
    expect(engine.asked).toEqual([2]);
    expect(await letters(0)).toMatchObject([
      { code: "JSON_INVALID", line: 1, attempts: 0 },
      { code: "VARIABLE_MISSING", line: 2, message: expect.stringContaining(":2") as unknown },
    ]);
  });

  it("end the attempt where a failed row is to stop the run", async () => {
    const engine = scriptedEngine(1, ({ index }) => answered(index));
    const rows = [...rowsOf(2), '{"other":1}', ...rowsOf(2)];
    const { add, end, failures, run } = await execution(rows, engine, { failOnRowError: true });
    await add(0);
    await end();
    expect(failures).toMatchObject([{ error: { code: "ROW_FAILED", place: { field: "text" } } }]);
    expect(failures[0]!.error.message).toContain(":3");
    expect(failures[0]!.error.message.match(/field text/g)).toHaveLength(1);
    expect(await run.paths("_sluice/commits/")).toEqual([]);
  });

  it("end the attempt where the input has fewer rows than planned", async () => {
    const engine = scriptedEngine(1, ({ index }) => answered(index));
    const run = await plannedRun(rowsOf(3));
    run.files["/in/rows.jsonl"] = rowsOf(2).join("\n");
    const { add, end, failures } = await execution([], engine, { run });
    await add(0);
    await end();
    expect(failures).toMatchObject([{ error: { code: "INPUT_CHANGED" } }]);
  });
});

describe("leaving", () => {
  it("stops only when nothing is with the engine, and takes no more rows", async () => {
    const engine = scriptedEngine(2);
    const { add, executor, attempts } = await execution(rowsOf(5), engine);
    await add(0);
    let isStopped = false;
    const stopping = executor.stop().then(() => {
      isStopped = true;
    });
    await settled();
    expect(isStopped).toBe(false);
    engine.answerAll();
    await stopping;
    expect(engine.asked).toEqual([0, 1]);
    expect(attempts[0]!.done).toBe(2);
  });

  it("stops at once while rows only wait for another try", async () => {
    const engine = scriptedEngine(1, () => new SluiceError("SERVER_ERROR"));
    const { add, executor, run } = await execution(rowsOf(1), engine);
    await add(0);
    await executor.stop();
    const before = engine.asked.length;
    await run.clock.run(sleep(run.clock, 600_000));
    expect(engine.asked).toHaveLength(before);
  });

  it("keeps a row open whose last try may have failed by the stop", async () => {
    const lost = new SluiceError("CONNECTION_LOST");
    const engine = scriptedEngine(1, (_, before) => (before < 2 ? lost : undefined));
    const { add, executor, attempts, run } = await execution(rowsOf(1), engine);
    await add(0);
    await run.clock.run(sleep(run.clock, 60_000));
    const stopping = executor.stop();
    engine.held[0]!.fail(lost);
    await stopping;
    expect(engine.asked).toHaveLength(3);
    expect(attempts[0]!.openRows).toBe(1);
  });

  it("gives the place of a removed attempt to the others", async () => {
    const engine = scriptedEngine(2);
    const { add, executor } = await execution(rowsOf(8), engine, { job: perTask(4) });
    const first = await add(0);
    await add(1);
    expect(engine.asked).toEqual([0, 1]);
    executor.remove(first, new SluiceError("RUN_CANCELED"));
    await settled();
    expect(engine.asked).toEqual([0, 1, 4, 5]);
    expect(first.done).toBe(0);
  });

  it("drops answers that come for an attempt that was removed", async () => {
    const release = Promise.withResolvers<void>();
    const engine = scriptedEngine(1);
    const inner = engine.infer;
    // An engine that does not heed the signal.
    engine.infer = async (request, _signal) => {
      if (request.origin!.index > 1) return inner(request, new AbortController().signal);
      engine.asked.push(request.origin!.index);
      await release.promise;
      return answered(request.origin!.index);
    };
    const { add, executor } = await execution(rowsOf(4), engine, { job: perTask(2) });
    const attempt = await add(0);
    await add(1);
    executor.remove(attempt, new SluiceError("RUN_CANCELED"));
    await settled();
    expect([engine.asked, executor.inFlight]).toEqual([[0], 1]);
    release.resolve();
    await settled();
    expect([attempt.done, engine.asked]).toEqual([0, [0, 2]]);
  });
});
