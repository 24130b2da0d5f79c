import { describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import {
  greedyParameters,
  type InferenceResponse,
  noUsage,
} from "../../src/foundation/inference.ts";
import { Workers } from "../../src/serve/workers.ts";
import { settled } from "../run/scripted-engine.ts";

const request = { prompt: "x", parameters: { ...greedyParameters, maxNewTokens: 1, seed: 1 } };
const { signal } = new AbortController();

/** An engine that answers when it is told to, and says by whom. */
class HandEngine implements Engine {
  readonly name: string;
  readonly capacity = 4;
  readonly concurrency = 2;
  readonly open: PromiseWithResolvers<InferenceResponse>[] = [];
  isClosed = false;

  constructor(name: string) {
    this.name = name;
  }

  infer(): Promise<InferenceResponse> {
    const answer = Promise.withResolvers<InferenceResponse>();
    this.open.push(answer);
    return answer.promise;
  }

  answer(): void {
    const text = this.name;
    const answers = [{ text, finishReason: "stop" as const, tokens: 1 }];
    for (const each of this.open.splice(0)) each.resolve({ answers, usage: noUsage, seconds: 0 });
  }

  async close(): Promise<void> {
    this.isClosed = true;
  }
}

function handWorkers() {
  const engines: HandEngine[] = [];
  const workers = new Workers(async (place) => {
    if (place === 3) throw new Error("there is no fourth GPU");
    const engine = new HandEngine(`worker ${place}`);
    engines.push(engine);
    return { engine, gpus: [] };
  }, systemClock);
  return { workers, engines };
}

describe("Workers", () => {
  it("share requests by the room that each has", async () => {
    const { workers, engines } = handWorkers();
    await workers.scale(2);
    expect([workers.capacity, workers.concurrency]).toEqual([8, 4]);
    const answers = Promise.all(Array.from({ length: 6 }, () => workers.infer(request, signal)));
    expect(engines.map(({ open }) => open.length)).toEqual([3, 3]);
    for (const engine of engines) engine.answer();
    expect(await answers).toHaveLength(6);
  });

  it("keep a number that is within the limits, also one that is still being loaded", async () => {
    const { workers, engines } = handWorkers();
    const loading = workers.scale(3);
    await workers.scale(1, 8);
    await loading;
    expect(engines.map(({ isClosed }) => isClosed)).toEqual([false, false, false]);
    await workers.scale(1, 2);
    expect(workers.all).toHaveLength(2);
  });

  it("close those that are too many only when they have answered, and take no more", async () => {
    const { workers, engines } = handWorkers();
    await workers.scale(2);
    const first = [workers.infer(request, signal), workers.infer(request, signal)];
    let isScaled = false;
    const scaled = workers.scale(1).then(() => {
      isScaled = true;
    });
    await Promise.resolve();
    await Promise.resolve();
    const late = workers.infer(request, signal);
    expect(engines.map(({ open }) => open.length)).toEqual([2, 1]);
    expect([isScaled, engines[1]!.isClosed]).toEqual([false, false]);
    for (const engine of engines) engine.answer();
    await Promise.all([...first, late, scaled]);
    expect(engines.map(({ isClosed }) => isClosed)).toEqual([false, true]);
  });

  it("refuse a request where there is none, and let it wait for the first", async () => {
    const { workers, engines } = handWorkers();
    expect(workers.isThere).toBe(false);
    await expect(workers.infer(request, signal)).rejects.toMatchObject({ code: "WORKERS_MISSING" });
    const scaling = workers.scale(1);
    expect(workers.isThere).toBe(true);
    const gone = new AbortController();
    const left = workers.infer(request, gone.signal);
    gone.abort(new Error("left"));
    await expect(left).rejects.toThrow("left");
    const waiting = workers.infer(request, signal);
    await scaling;
    await expect.poll(() => engines[0]?.open.length).toBe(1);
    engines[0]!.answer();
    expect((await waiting).answers[0]!.text).toBe("worker 0");
  });

  it("close one that is still being loaded when they close, before that is over", async () => {
    const loaded = Promise.withResolvers<void>();
    const engine = new HandEngine("late");
    const workers = new Workers(async () => {
      await loaded.promise;
      return { engine, gpus: [] };
    }, systemClock);
    const scaled = workers.scale(1).catch((error: Error) => error.message);
    let isOver = false;
    const closed = workers.close().then(() => {
      isOver = true;
    });
    await settled();
    expect(isOver).toBe(false);
    loaded.resolve();
    expect(await scaled).toContain("the model was unloaded");
    await closed;
    expect(engine.isClosed).toBe(true);
  });

  it("stay as many as they were when one cannot be loaded", async () => {
    const { workers, engines } = handWorkers();
    await workers.scale(2);
    await expect(workers.scale(4)).rejects.toThrow("no fourth GPU");
    expect(workers.all).toHaveLength(2);
    expect(engines.map(({ isClosed }) => isClosed)).toEqual([false, false, true]);
    await workers.close();
    expect(engines.every(({ isClosed }) => isClosed)).toBe(true);
  });
});
