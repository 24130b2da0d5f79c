import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openFake } from "../../../src/engines/fake/engine.ts";
import type { FakeModelOptions } from "../../../src/engines/fake/options.ts";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { chatRequest, engineContext, rejectionOf } from "../engine-context.ts";
import { ManualClock } from "../manual-clock.ts";

const optionsOf = (changes: object) =>
  modelOptions.parse({ engine: "fake", ...changes }) as FakeModelOptions;
const never = new AbortController().signal;

/** An engine on a manual clock, and the order in which rows are answered at which time. */
function timedEngine(changes: object) {
  const clock = new ManualClock();
  const engine = openFake(optionsOf(changes), engineContext({ clock }));
  const ended: [number, number][] = [];
  const ask = (index: number, signal = never) =>
    engine.infer(chatRequest(index), signal).then((response) => {
      ended.push([index, Math.round(clock.monotonic())]);
      return response;
    });
  return { clock, engine, ended, ask };
}

describe("fake engine", () => {
  it("answers at once without latency", async () => {
    const engine = openFake(optionsOf({}), engineContext({ clock: new ManualClock() }));
    const response = await engine.infer(chatRequest(1), never);
    expect(response.answers[0]!.text).toMatch(/^\w+( \w+)+$/);
  });

  it("takes its latency, lets in no more than its capacity, first come first served", async () => {
    const { clock, ended, ask } = timedEngine({ latencyMs: 50, capacity: 2 });
    const all = [0, 1, 2, 3, 4].map((index) => ask(index));
    await clock.advance(200);
    expect(ended).toEqual([
      [0, 50],
      [1, 50],
      [2, 100],
      [3, 100],
      [4, 150],
    ]);
    expect((await all[4]!).seconds).toBe(0.15);
  });

  it("draws latencies from a distribution by the request, not by the order of asking", async () => {
    for (const latencyMs of [{ min: 10, max: 90 }, { mean: 40 }]) {
      const times = async (indexes: number[]) => {
        const { clock, ended, ask } = timedEngine({ latencyMs, capacity: 500 });
        for (const index of indexes) ask(index);
        await clock.advance(10_000);
        return ended.toSorted(([a], [b]) => a - b).map(([, atMs]) => atMs);
      };
      const indexes = Array.from({ length: 400 }, (_, index) => index);
      const forward = await times(indexes);
      expect(await times(indexes.toReversed())).toEqual(forward);
      const mean = forward.reduce((sum, atMs) => sum + atMs, 0) / forward.length;
      expect(mean).toBeGreaterThan(35);
      expect(mean).toBeLessThan("min" in latencyMs ? 65 : 45);
    }
  });

  it.each([
    ["retryable", "FAKE_FAILURE", "row", true],
    ["refused", "REQUEST_REFUSED", "row", false],
    ["invalid", "ANSWER_INVALID", "row", true],
    ["fatal-run", "AUTHENTICATION_FAILED", "run", false],
  ])("fails as %s with %s", async (kind, code, scope, retryable) => {
    const engine = openFake(optionsOf({ failures: [{ row: 7, kind }] }), engineContext());
    const error = await rejectionOf(engine.infer(chatRequest(7), never));
    expect(error).toMatchObject({ code, scope, retryable });
    expect(error!.message).toContain("row 7");
    expect((await engine.infer(chatRequest(8), never)).answers.length).toBe(1);
  });

  it("kill-engine takes all that is held along, and the engine works again", async () => {
    const { clock, engine, ask } = timedEngine({
      latencyMs: 50,
      capacity: 2,
      failures: [{ row: 1, kind: "kill-engine" }],
    });
    const errors = [0, 1, 2].map((index) => rejectionOf(ask(index)));
    const early = ask(9);
    early.catch(() => {});
    await clock.advance(50);
    const [first, guilty, waiting] = await Promise.all(errors);
    expect(first).toBeUndefined();
    expect(guilty).toMatchObject({ code: "ENGINE_DIED", scope: "engine" });
    expect(waiting).toMatchObject({ code: "ENGINE_DIED" });
    expect(await rejectionOf(early)).toMatchObject({ code: "ENGINE_DIED" });
    const again = engine.infer(chatRequest(2), never);
    await clock.advance(50);
    expect((await again).answers.length).toBe(1);
  });

  it("kill-worker kills the process with the ask on file", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-fake-"));
    const countFile = join(folder, "asks");
    const onFile: string[] = [];
    const killProcess = () => void onFile.push(readFileSync(countFile, "utf8"));
    const options = optionsOf({ countFile, failures: [{ row: 1, kind: "kill-worker" }] });
    const engine = openFake(options, engineContext({ killProcess }));
    const error = await rejectionOf(engine.infer(chatRequest(1), never));
    expect(onFile).toEqual(["1 answer -\n"]);
    expect(error).toMatchObject({ code: "ENGINE_DIED" });
    await engine.close();
    await rm(folder, { recursive: true });
  });

  it("frees the place of an aborted request at once", async () => {
    const { clock, ended, ask } = timedEngine({ latencyMs: 50, capacity: 1 });
    const controller = new AbortController();
    const aborted = rejectionOf(ask(0, controller.signal));
    const waiting = rejectionOf(ask(1, controller.signal));
    ask(2);
    await clock.advance(20);
    controller.abort("stop");
    await clock.advance(50);
    expect(await Promise.all([aborted, waiting])).toEqual(["stop", "stop"]);
    expect(ended).toEqual([[2, 70]]);
    expect(clock.timers).toBe(0);
  });

  it("rejects a slot that would copy from too long a text", async () => {
    const source = "word ".repeat(5000);
    const slot = { name: "a", source, orElse: "none", maxWords: 2 };
    const request = { ...chatRequest(1), slottedLine: { line: "{a}", slots: [slot] } };
    for (const latencyMs of [0, 1]) {
      const engine = openFake(optionsOf({ latencyMs }), engineContext());
      expect(await rejectionOf(engine.infer(request, never))).toMatchObject({ code: "FIELD_TYPE" });
      await engine.close();
    }
  });
});
