import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Engine } from "../../../src/engines/engine.ts";
import { openHostedEngine } from "../../../src/engines/host/client.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import {
  type AnswerDelta,
  greedyParameters,
  type InferenceRequest,
} from "../../../src/foundation/inference.ts";
import type { Json } from "../../../src/foundation/json.ts";
import { handClock } from "../../hand-clock.ts";
import { echoHostCommand } from "./echo-host.ts";

const never = new AbortController().signal;
const opened: Engine[] = [];

afterEach(async () => {
  await Promise.all(opened.splice(0).map((engine) => engine.close()));
});

const lines: string[] = [];
const context = {
  clock: systemClock,
  // Waits between starts are drawn from 0: the tests need not wait.
  random: { next: () => 0 },
  logger: { log: (_level: string, message: string) => void lines.push(message) },
  environment: process.env,
  hostCommand: echoHostCommand,
};

async function open(options: Record<string, Json> = {}): Promise<Engine> {
  const engine = await openHostedEngine({
    kind: "predictor",
    options,
    context,
  });
  opened.push(engine);
  return engine;
}

const request = (prompt: string, index = 0): InferenceRequest => ({
  origin: { index, promptName: "p" },
  prompt,
  onTooLong: "fail",
  parameters: {
    ...greedyParameters,
    maxNewTokens: 1,
    seed: 0,
  },
});

describe("openHostedEngine", () => {
  it("answers from another process, with one libuv thread", async () => {
    const engine = await open();
    const answer = await engine.infer(request("hello", 7), never);
    expect(answer.answers[0]?.text).toBe("7: hello");
    expect(engine.capacity).toBe(3);
    expect(engine.choices?.pid).not.toBe(process.pid);
    expect(engine.choices?.threads).toBe("1");
  });

  it("is told of an answer while it is made", async () => {
    const engine = await open();
    const deltas: AnswerDelta[] = [];
    let isAnswered = false;
    let early = 0;
    const asked = engine.infer(request("speak"), never, (delta) => {
      deltas.push(delta);
      if (!isAnswered) early++;
    });
    const { answers } = await asked;
    isAnswered = true;
    expect(deltas.map(({ text }) => text).join("")).toBe(answers[0]!.text);
    expect(deltas.length).toBeGreaterThan(1);
    expect(early).toBe(deltas.length);
  });

  it("logs what the host prints, whichever stream it takes", async () => {
    const engine = await open();
    await engine.infer(request("a mark for the log"), never);
    await engine.close();
    expect(lines).toContain("asked a mark for the log");
  });

  it("ends a load that takes too long, and tells its last words", async () => {
    const { clock, pass } = handClock();
    const logger = {
      log: (_level: string, line: string) => line.includes("the weights") && pass(1500),
    };
    const opening = openHostedEngine({
      ...{ kind: "predictor", options: { mode: "linger" }, loadTimeoutMs: 1500 },
      context: { ...context, clock, logger },
    });
    await expect(opening).rejects.toMatchObject({
      code: "ENGINE_START_FAILED",
      message: expect.stringContaining(
        "not loaded after 1.5 s (loadTimeoutMs); its last line: waiting for the weights",
      ),
      hint: expect.stringContaining("raise loadTimeoutMs"),
    });
  });

  it("does not count the time in which the host fetches what it loads", async () => {
    const { clock, pass } = handClock();
    const seen: number[] = [];
    const engine = await openHostedEngine({
      ...{ kind: "transformers", options: {}, loadTimeoutMs: 1500 },
      context: { ...context, clock },
      onFetch(bytes) {
        seen.push(bytes);
        pass(1000);
      },
    });
    opened.push(engine);
    expect(seen).toEqual([1, 2, 3]);
  });

  it("hands on the engine's own refusal of a row", async () => {
    const engine = await open();
    await expect(engine.infer(request("refuse"), never)).rejects.toMatchObject({
      code: "PROMPT_TOO_LONG",
      scope: "row",
    });
    expect((await engine.infer(request("next"), never)).answers[0]?.text).toBe("0: next");
  });

  it("rejects everything it held when its host dies, then starts it again", async () => {
    const engine = await open();
    const before = engine.choices?.pid;
    const held = ["hang", "hang", "die"].map((prompt) => engine.infer(request(prompt), never));
    for (const result of await Promise.allSettled(held)) {
      expect(result).toMatchObject({ status: "rejected", reason: { code: "ENGINE_DIED" } });
    }
    const answers = await Promise.all(
      ["x", "y"].map((prompt) => engine.infer(request(prompt), never)),
    );
    expect(answers.map((answer) => answer.answers[0]?.text)).toEqual(["0: x", "0: y"]);
    expect(engine.choices?.pid).not.toBe(before);
  });

  it("ends a host whose engine fails in a way that it does not name", async () => {
    const engine = await open();
    await expect(engine.infer(request("throw"), never)).rejects.toMatchObject({
      code: "ENGINE_DIED",
    });
  });

  it("has prompts turned into tokens by a host that does so", async () => {
    const engine = await open();
    const tokenize = engine.tokenize!;
    const prompts = [{ prompt: "ab" }, { prompt: "" }];
    expect(await tokenize(prompts)).toEqual({
      tokenizer: "bytes",
      prompts: [
        [[], [97, 98]],
        [[], []],
      ],
    });
    await expect(tokenize([{ prompt: "refuse" }])).rejects.toMatchObject({ code: "STORE_FAILED" });
    const held = engine.infer(request("hang"), never);
    const fallen = expect(held).rejects.toMatchObject({ code: "ENGINE_DIED" });
    await expect(tokenize([{ prompt: "die" }])).rejects.toMatchObject({ code: "ENGINE_DIED" });
    await fallen;
    expect((await tokenize([])).tokenizer).toBe("bytes");
  });

  it("gives an aborted request up at once and goes on", async () => {
    const engine = await open();
    const controller = new AbortController();
    const asked = engine.infer(request("hang"), controller.signal);
    controller.abort(new Error("enough"));
    await expect(asked).rejects.toThrow("enough");
    expect((await engine.infer(request("next"), never)).answers[0]?.text).toBe("0: next");
  });

  it("gives a request up that is aborted while its host is started again", async () => {
    const waits = { next: () => 1000 };
    const engine = await openHostedEngine({
      ...{ kind: "predictor", options: {} },
      context: { ...context, random: waits },
    });
    opened.push(engine);
    await expect(engine.infer(request("die"), never)).rejects.toThrow();
    const leaving = new AbortController();
    const asked = [
      engine.infer(request("next"), leaving.signal),
      engine.tokenizePieces([[]], leaving.signal),
      engine.runBatch([], leaving.signal, 60_000),
    ];
    leaving.abort(new Error("enough"));
    await Promise.all(asked.map((each) => expect(each).rejects.toThrow("enough")));
  });

  it("hands on an engine's refusal to open", async () => {
    await expect(open({ mode: "refuse" })).rejects.toMatchObject({ code: "MODEL_CORRUPT" });
  });

  it("says what the host wrote last when it cannot start, without trying again", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-host-"));
    try {
      const startFile = join(folder, "starts");
      const failed = open({ mode: "crash", startFile });
      await expect(failed).rejects.toMatchObject({ code: "ENGINE_START_FAILED" });
      await expect(failed).rejects.toThrow(/SIGABRT.*\n.*native code says goodbye/);
      expect((await readFile(startFile, "utf8")).trim().split("\n")).toHaveLength(1);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("gives up on an engine that starts but only ever dies", async () => {
    const engine = await open();
    let code = "";
    for (let time = 0; time < 40 && code !== "ENGINE_START_FAILED"; time++) {
      code = await engine.infer(request("die"), never).then(
        () => "",
        (error) => error.code,
      );
    }
    expect(code).toBe("ENGINE_START_FAILED");
  });

  it("rejects what it holds when it is closed, and what comes after", async () => {
    const engine = await open();
    const held = engine.infer(request("hang"), never);
    const settled = expect(held).rejects.toMatchObject({ code: "ENGINE_DIED" });
    await engine.close();
    await settled;
    await expect(engine.infer(request("x"), never)).rejects.toMatchObject({ code: "ENGINE_DIED" });
  });
});
