import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openCommand } from "../../../src/engines/command/engine.ts";
import { type Clock, systemClock } from "../../../src/foundation/clock.ts";
import type { SluiceError } from "../../../src/foundation/errors.ts";
import { isAlive, untilGone } from "../../live-processes.ts";
import { rejectionOf } from "../engine-context.ts";
import {
  answerTo,
  commandContext,
  promptRequest,
  scripted,
  withCommand,
} from "./command-engine.ts";

const never = new AbortController().signal;

async function outcomes(promises: readonly Promise<string>[]): Promise<string[]> {
  const settled = await Promise.allSettled(promises);
  return settled.map((each) =>
    each.status === "fulfilled" ? each.value : (each.reason as SluiceError).code,
  );
}

describe("openCommand", () => {
  it("answers in batches, each row its own answer", () =>
    withCommand(scripted("ready", { maxBatchRows: 4 }), async (engine) => {
      const words = ["one", "two", "three", "four", "five", "six"];
      const texts = words.map((word, index) => answerTo(engine, word, index));
      expect(await Promise.all(texts)).toEqual(words.map((word) => word.toUpperCase()));
      const sizes = words.map((word, index) => answerTo(engine, `SIZE ${word}`, index));
      expect(await Promise.all(sizes)).toEqual(["4", "4", "4", "4", "2", "2"]);
      expect(engine.choices).toMatchObject({ program: "capitals", replicas: 1, devices: ["cpu"] });
    }));

  it("hands each row its seed and itself, and takes any JSON value", () =>
    withCommand(scripted("ready"), async (engine) => {
      const request = { ...promptRequest(0, "VALUE"), row: { id: 7 } };
      const { answers } = await engine.infer(request, never);
      expect(answers[0]!.value).toEqual({ seed: 3, row: { id: 7 } });
    }));

  it("sends no more rows than the program takes, and only those of the same parameters", () =>
    withCommand(scripted("small 2"), async (engine) => {
      const three = [0, 1, 2].map((index) => answerTo(engine, "SIZE", index));
      expect(await Promise.all(three)).toEqual(["2", "2", "1"]);
      const { parameters, ...request } = promptRequest(1, "SIZE");
      const warm = { ...request, parameters: { ...parameters, temperature: 1 } };
      const mixed = await Promise.all([answerTo(engine, "SIZE"), engine.infer(warm, never)]);
      expect([mixed[0], mixed[1].answers[0]!.text]).toEqual(["1", "1"]);
    }));

  it("gives every replica its number and its own GPU", async () => {
    const options = scripted("ready", { replicas: 2, devices: [1, 3] });
    await withCommand(options, async (engine) => {
      expect(engine.choices).toMatchObject({ replicas: 2, devices: ["cuda:1", "cuda:3"] });
    });
  });

  it("makes an error of its own of each item's failure", () =>
    withCommand(scripted("ready"), async (engine) => {
      const texts = ["a", "REFUSE", "FULL", "NOTHING", "b"];
      const asked = texts.map((text, index) => answerTo(engine, text, index));
      expect(await outcomes(asked)).toEqual([
        "A",
        "PREDICTION_FAILED",
        "PROMPT_TOO_LONG",
        "PREDICTION_FAILED",
        "B",
      ]);
    }));

  it("finds the one row that a batch fails for", () =>
    withCommand(scripted("ready"), async (engine) => {
      const texts = ["a", "b", "THROW", "c", "d"];
      const asked = texts.map((text, index) => answerTo(engine, text, index));
      expect(await outcomes(asked)).toEqual(["A", "B", "PREDICTION_FAILED", "C", "D"]);
    }));

  it.each(["FEW", "LISTLESS"])("fails a whole batch that is answered with %s", (word) =>
    withCommand(scripted("ready"), async (engine) => {
      const asked = ["a", "b", word, "c"].map((text, index) => answerTo(engine, text, index));
      expect(await outcomes(asked)).toEqual(Array(4).fill("RESULTS_MISCOUNTED"));
    }),
  );

  it("sends smaller batches once memory did not suffice", () =>
    withCommand(scripted("ready"), async (engine) => {
      const asked = Array.from({ length: 8 }, (_, index) => answerTo(engine, "ROOM2 SIZE", index));
      expect(await Promise.all(asked)).toEqual(Array.from({ length: 8 }, () => "2"));
      const again = Array.from({ length: 4 }, (_, index) => answerTo(engine, "ROOM2 SIZE", index));
      expect(await Promise.all(again)).toEqual(["2", "2", "2", "2"]);
    }));

  it("stops everything where the program cannot do what the job asks", () =>
    withCommand(scripted("ready"), async (engine) => {
      const error = await rejectionOf(answerTo(engine, "UNSUPPORTED"));
      expect(error).toMatchObject({ code: "UNSUPPORTED", scope: "run" });
    }));

  it("passes over lines that are no protocol, and says so", () =>
    withCommand(scripted("noisy"), async (engine, lines) => {
      expect(await answerTo(engine, "NOISE STALE")).toBe("NOISE STALE");
      expect(lines.filter((line) => line.startsWith("warn"))).toEqual([
        "warn a line on stdout is not part of the protocol: Loading weights",
        "warn a line on stdout is not part of the protocol: OK",
        "warn a line on stdout is not part of the protocol: 42% done",
        "warn an answer to batch 1000, which is not asked",
      ]);
    }));
});

describe("openCommand, where the program dies", () => {
  it("rejects only what was in flight, and starts it again", () =>
    withCommand(scripted("ready", { maxBatchRows: 1, replicas: 2 }), async (engine, lines) => {
      const texts = ["EXIT", "a", "b", "c", "d"];
      const asked = texts.map((text, index) => answerTo(engine, text, index));
      expect(await outcomes(asked)).toEqual(["ENGINE_DIED", "A", "B", "C", "D"]);
      const error = await rejectionOf(answerTo(engine, "EXIT"));
      expect(error!.message).toContain("exit code 3; its last line: the last words");
      expect(await answerTo(engine, "still here")).toBe("STILL HERE");
      expect(lines.join("\n")).toContain("warn the program ended: exit code 3");
    }));

  it("ends one that hangs, as a stall", () =>
    withCommand(scripted("ready", { timeoutMs: 2500 }), async (engine) => {
      const error = await rejectionOf(answerTo(engine, "HANG"));
      expect(error).toMatchObject({ code: "ENGINE_STALLED", scope: "engine" });
      expect(error!.message).toContain("no answer to 1 row within 2.5 s");
      expect(await answerTo(engine, "next")).toBe("NEXT");
    }));

  it("gives up where it starts no more", async () => {
    const marker = join(await mkdtemp(join(tmpdir(), "sluice-command-")), "started");
    await withCommand(scripted(`once ${marker}`), async (engine) => {
      expect(await rejectionOf(answerTo(engine, "EXIT"))).toMatchObject({ code: "ENGINE_DIED" });
      const error = await rejectionOf(answerTo(engine, "next"));
      expect(error).toMatchObject({ code: "ENGINE_START_FAILED", scope: "run" });
    });
  });

  it("ends one that ignores the end of its stdin, with all that it started", async () => {
    const schedule: Clock["schedule"] = (delayMs, wake) =>
      systemClock.schedule(Math.min(delayMs, 5000), wake);
    const context = { ...commandContext(), clock: { ...systemClock, schedule } };
    const engine = await openCommand(scripted("stays"), context);
    const pids = String(engine.choices!.program).split(" ").map(Number);
    expect(pids.map(isAlive)).toEqual([true, true]);
    await engine.close();
    await untilGone(pids);
  });

  it("waits for a batch that nobody wants any more before it sends the next", () =>
    withCommand(scripted("slow"), async (engine) => {
      const controller = new AbortController();
      const reason = new Error("changed my mind");
      const unwanted = rejectionOf(engine.infer(promptRequest(0, "a"), controller.signal));
      setTimeout(() => controller.abort(reason), 20);
      expect(await unwanted).toBe(reason);
      expect(await answerTo(engine, "b")).toBe("B");
    }));
});

describe("openCommand, where the program does not start", () => {
  const failure = async (options: ReturnType<typeof scripted>) =>
    (await rejectionOf(openCommand(options, commandContext())))!;

  it("says that it is not there, and from where paths start", async () => {
    const missing = await failure(scripted("ready", { command: "no-such-program" }));
    expect(missing).toMatchObject({ code: "PROGRAM_MISSING" });
    expect(missing.message).toContain("no-such-program is not on PATH");
    const options = scripted("ready", { command: "./gone", workingDirectory: "/tmp" });
    expect(await failure(options)).toMatchObject({ hint: expect.stringContaining("from /tmp") });
    const folder = await failure(scripted("ready", { command: "/tmp" }));
    expect(folder).toMatchObject({ code: "PROGRAM_MISSING" });
    expect(folder.message).toContain("/tmp cannot be run");
    const nowhere = await failure(scripted("ready", { workingDirectory: "/no/such/folder" }));
    expect(nowhere.message).toContain("/no/such/folder is not a folder");
  });

  it("says what it wrote where it ended at once", async () => {
    const ended = await failure(scripted("ends"));
    expect(ended).toMatchObject({ code: "ENGINE_START_FAILED" });
    expect(ended.message).toContain("exit code 0, before it was ready, after writing");
    expect(ended.message).toContain("no such weights");
    expect(ended).toMatchObject({ hint: expect.stringContaining('{"ready": 1}') });
    expect((await failure(scripted("prints"))).message).toContain("I am no server");
  });

  it.each(['{"ready":2}', '{"ready":true}', '{"ready":"1"}', '{"ready":{"places":4}}'])(
    "refuses %s at once, and says what to write",
    async (line) => {
      const other = await failure(scripted(`says ${line}`));
      expect(other).toMatchObject({
        code: "ENGINE_START_FAILED",
        message: expect.stringContaining(`wrote ${line}, where "ready" is not 1`),
        hint: expect.stringContaining('write {"ready": 1}'),
      });
    },
  );

  it("ends the other replicas where one does not start", async () => {
    const options = scripted("ready", { replicas: 3, devices: [0] });
    expect(await failure(options)).toMatchObject({ code: "JOB_INVALID" });
  });
});
