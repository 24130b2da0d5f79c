import { afterEach, describe, expect, it } from "vitest";
import type { Engine } from "../../../src/engines/engine.ts";
import { freePort, openManagedEngine } from "../../../src/engines/managed/managed-engine.ts";
import { vllmFacts } from "../../../src/engines/managed/server-facts.ts";
import { type Clock, systemClock } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { engineContext, rejectionOf } from "../engine-context.ts";
import { request, StandIn, untilGone } from "./managed-engines.ts";

const never = new AbortController().signal;
const opened: Engine[] = [];
const standIns: StandIn[] = [];

afterEach(async () => {
  await Promise.all(opened.splice(0).map((engine) => engine.close()));
  for (const standIn of standIns.splice(0)) standIn.remove();
});

async function open(...given: Parameters<StandIn["open"]>) {
  const standIn = new StandIn();
  standIns.push(standIn);
  const engine = await standIn.open(...given);
  opened.push(engine);
  const ask = async (prompt: string, signal = never) =>
    (await engine.infer(request(prompt), signal)).answers[0]?.text;
  return { standIn, engine, ask };
}

/** Waits are cut short on it. */
const hastyClock: Clock = {
  ...systemClock,
  schedule: (delayMs, callback) => systemClock.schedule(Math.min(delayMs, 200), callback),
};

/** A logger whose lines are kept. */
function keptLog() {
  const lines: string[] = [];
  return { lines, logger: { log: (_: string, line: string) => void lines.push(line) } };
}

describe("a managed server", () => {
  it("is started, waited for, asked, and stopped with its engine", async () => {
    const { standIn, engine, ask } = await open({}, { loadMs: 300, hasChild: true });
    expect(await ask("hello")).toBe("re: hello");
    expect(engine.choices).toMatchObject({ version: "1.2.3", contextTokens: 512 });
    const [start] = standIn.starts;
    expect(start!.args.slice(0, 2)).toEqual(["serve", "owner/model"]);
    await engine.close();
    await untilGone(start!.pid);
    await untilGone(start!.child!);
  });

  it("shows its last line while it loads", async () => {
    const { lines, logger } = keptLog();
    let nowMs = 0;
    // Each look at this clock takes two seconds.
    const monotonic = () => {
      nowMs += 2000;
      return nowMs;
    };
    const clock = { ...systemClock, monotonic };
    await open({ clock, logger }, { loadMs: 700 });
    expect(lines.some((line) => /^vllm is loading, \d+ s: loading, layer 7 of 9$/.test(line))).toBe(
      true,
    );
  });

  it("is given up when it takes too long, with its last line", async () => {
    const standIn = new StandIn();
    standIns.push(standIn);
    // Time passes as soon as the server runs.
    const monotonic = () => (standIn.starts.length === 0 ? 0 : 60_000);
    const clock = { ...systemClock, monotonic };
    const options = { loadTimeoutMs: 60_000 };
    const failure = await rejectionOf(standIn.open({ clock }, { loadMs: 60_000 }, options));
    expect(failure).toMatchObject({
      code: "ENGINE_START_FAILED",
      hint: expect.stringContaining("loadTimeoutMs"),
    });
    await untilGone(standIn.starts[0]!.pid);
  });

  it("that ends at once is not tried again at first, and its last lines say why", async () => {
    const standIn = new StandIn();
    standIns.push(standIn);
    const failure = await rejectionOf(standIn.open({}, { failedStarts: [0] }));
    expect(failure?.code).toBe("ENGINE_START_FAILED");
    expect(failure?.message).toMatch(
      /vllm: exit code 3, after writing\n {2}the weights do not fit/,
    );
    expect(standIn.starts).toHaveLength(1);
  });

  it("gets another port when something else took its own", async () => {
    const { standIn, ask } = await open({}, { takenPorts: 2 });
    expect(await ask("hello")).toBe("re: hello");
    const ports = standIn.starts.map(({ args }) => args.at(-1));
    expect(new Set(ports).size).toBe(3);
  });

  it("rejects what it held when it dies, and is started again", async () => {
    const { lines, logger } = keptLog();
    const { ask, standIn } = await open({ logger });
    const before = await ask("pid");
    const held = ["hang 1", "hang 2", "die"].map((prompt) => ask(prompt));
    for (const result of await Promise.allSettled(held)) {
      expect(result).toMatchObject({ status: "rejected", reason: { code: "ENGINE_DIED" } });
      expect((result as PromiseRejectedResult).reason.message).toContain("signal SIGKILL");
    }
    const after = await Promise.all([ask("pid"), ask("pid")]);
    expect(after[0]).toBe(after[1]);
    expect(after[0]).not.toBe(before);
    expect(standIn.starts).toHaveLength(2);
    expect(lines.filter((line) => line.startsWith("vllm ended: "))).toHaveLength(1);
  });

  it("that answers nothing but failures and is ill is ended", async () => {
    const { ask, standIn } = await open({ clock: hastyClock });
    const results = await Promise.allSettled([ask("hang"), ask("fall ill")]);
    expect(results.map((it) => (it as PromiseRejectedResult).reason.code)).toEqual([
      "ENGINE_DIED",
      "ENGINE_DIED",
    ]);
    await untilGone(standIn.starts[0]!.pid);
    expect(await ask("again")).toBe("re: again");
  });

  it("that is well may fail one request", async () => {
    const { ask, standIn } = await open();
    expect(await rejectionOf(ask("fail"))).toMatchObject({ code: "SERVER_ERROR" });
    expect(await ask("next")).toBe("re: next");
    expect(standIn.starts).toHaveLength(1);
  });

  it("is given up when it starts but only ever dies", async () => {
    const { ask } = await open();
    let code: unknown;
    let tries = 0;
    while (code !== "ENGINE_START_FAILED") {
      expect(tries++).toBeLessThan(40);
      code = (await rejectionOf(ask("die")))?.code;
    }
    expect(tries).toBe(18);
    // Eighteen processes, on a machine that may be busy.
  }, 120_000);

  it("starts again after starts that failed", async () => {
    const { lines, logger } = keptLog();
    const { ask, standIn } = await open({ logger }, { failedStarts: [1, 2] });
    expect((await rejectionOf(ask("die")))?.code).toBe("ENGINE_DIED");
    expect(await ask("hello")).toBe("re: hello");
    expect(standIn.starts).toHaveLength(4);
    expect(lines.filter((line) => / did not start, trying again: /.test(line))).toHaveLength(2);
  });

  it("is given up when too many starts in a row failed", async () => {
    const { ask, standIn } = await open({}, { failedStarts: [1, 2, 3] });
    await rejectionOf(ask("die"));
    const failure = await rejectionOf(ask("hello"));
    expect(failure).toMatchObject({ code: "ENGINE_START_FAILED", scope: "run" });
    expect(failure?.message).toContain("the weights do not fit");
    expect(standIn.starts).toHaveLength(4);
  });

  it("that takes no notice of SIGTERM is killed", async () => {
    const behaviour = { ignoresSigterm: true, hasChild: true };
    const { standIn, engine } = await open({ clock: hastyClock }, behaviour);
    const [start] = standIn.starts;
    await engine.close();
    await untilGone(start!.pid);
    await untilGone(start!.child!);
  });

  it("gives an aborted request up and goes on", async () => {
    const { ask } = await open();
    const controller = new AbortController();
    const asked = ask("hang", controller.signal);
    controller.abort(new Error("enough"));
    await expect(asked).rejects.toThrow("enough");
    expect(await ask("next")).toBe("re: next");
  });

  it("gives a request up that is aborted while it is started again", async () => {
    let wait = 0;
    const { ask } = await open({ random: { next: () => wait } });
    wait = 1000;
    await expect(ask("die")).rejects.toThrow();
    const leaving = new AbortController();
    const asked = ask("next", leaving.signal);
    leaving.abort(new Error("enough"));
    await expect(asked).rejects.toThrow("enough");
  });

  it("shows no secret, whatever it prints", async () => {
    const { lines, logger } = keptLog();
    const environment = { HF_TOKEN: "hf_abcdefgh123", PROXY: "http://me:pass@proxy:1" };
    const shows = ["HF_TOKEN", "PROXY", "VLLM_API_KEY"];
    const standIn = new StandIn();
    standIns.push(standIn);
    const failure = await rejectionOf(
      standIn.open({ environment, logger }, { shows, failedStarts: [0] }),
    );
    const said = [failure?.message, ...lines].join("\n");
    expect(said).toContain("HF_TOKEN=[redacted]");
    expect(said).toContain("PROXY=http://[redacted]@proxy:1");
    expect(said).toContain("VLLM_API_KEY=[redacted]");
    expect(said).not.toMatch(/hf_abcdefgh123|pass@/);
  });

  it("is not mistaken for another server on its port", async () => {
    const other = await open();
    const taken = Number(other.standIn.starts[0]!.args.at(-1));
    const ports = [taken, await freePort()];
    const standIn = new StandIn();
    standIns.push(standIn);
    const { command, args } = standIn.model();
    const addresses: string[] = [];
    const engine = await openManagedEngine({
      launch: {
        name: "vllm",
        command: [...command, ...args] as [string, ...string[]],
        environment: {},
        keyVariable: "VLLM_API_KEY",
        readFacts: (client) => vllmFacts(client, undefined),
        loadTimeoutMs: 20_000,
        choices: {},
      },
      context: engineContext(),
      choosePort: async () => ports.shift()!,
      async openEngine({ baseUrl }) {
        addresses.push(baseUrl);
        return other.engine;
      },
    });
    expect(ports).toEqual([]);
    expect(addresses).toHaveLength(1);
    expect(addresses[0]).not.toContain(`:${taken}/`);
    await engine.close();
  });

  it("rejects requests once it is closed", async () => {
    const { engine, ask } = await open();
    const held = ask("hang");
    const rejected = expect(held).rejects.toBeInstanceOf(SluiceError);
    await engine.close();
    await rejected;
    expect((await rejectionOf(ask("late")))?.code).toBe("ENGINE_DIED");
  });
});
