import { describe, expect, it } from "vitest";
import {
  type FromHost,
  type HostedEngine,
  hostProtocol,
  type ToHost,
} from "../../../src/engines/host/protocol.ts";
import { serveHost } from "../../../src/engines/host/serve.ts";
import { channelPair } from "../../../src/foundation/channel.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { errorFromRecord, SluiceError } from "../../../src/foundation/errors.ts";
import type { InferenceRequest } from "../../../src/foundation/inference.ts";

const engine: HostedEngine = {
  name: "echo",
  capacity: 2,
  choices: {},
  async infer({ prompt = "" }, signal, onDelta) {
    if (prompt === "speak") {
      for (const text of ["a", "b", "c"]) onDelta?.({ choice: 0, text, tokens: 1 });
      onDelta?.({ choice: 1, text: "d" });
    }
    if (prompt === "drone") {
      onDelta?.({ choice: 0, text: "x" });
      signal.addEventListener("abort", () => onDelta?.({ choice: 0, text: "late" }));
      await new Promise(() => {});
    }
    if (prompt === "refuse") throw new SluiceError("PARAMETER_INVALID", "bad", { field: "seed" });
    if (prompt === "fault") throw new TypeError("unnamed");
    return {
      answers: [{ text: prompt, finishReason: "stop", tokens: 1 }],
      usage: { promptTokens: 1, cachedTokens: 0, completionTokens: 1 },
      seconds: 0,
    };
  },
  async close() {},
};

function serve() {
  const [host, worker] = channelPair<FromHost, ToHost>();
  const heard: FromHost[] = [];
  const fatal: Error[] = [];
  let closed = false;
  worker.onMessage((message) => heard.push(message));
  worker.onClose(() => {
    closed = true;
  });
  serveHost({
    channel: host,
    pid: 7,
    clock: systemClock,
    open: async () => engine,
    onFatal: (error) => fatal.push(error),
  });
  return { worker, heard, fatal, isClosed: () => closed };
}

const open: ToHost = { type: "host-open", protocol: hostProtocol, kind: "predictor", options: {} };
const ask = (id: number, prompt: string): ToHost => ({
  type: "infer",
  id,
  request: { prompt } as InferenceRequest,
});

describe("serveHost", () => {
  it("says when it is ready, answers by id, and closes when told", async () => {
    const { worker, heard, isClosed } = serve();
    worker.send(open);
    await expect.poll(() => heard[0]).toMatchObject({ type: "host-ready", capacity: 2 });
    worker.send(ask(7, "hello"));
    await expect.poll(() => heard[1]).toMatchObject({ type: "infer-end", id: 7 });
    worker.send({ type: "host-close" });
    await expect.poll(isClosed).toBe(true);
  });

  it("refuses a worker of another protocol", async () => {
    const { worker, heard } = serve();
    worker.send({ ...open, protocol: hostProtocol + 1 } as ToHost);
    await expect.poll(() => heard[0]).toMatchObject({ error: { code: "PROTOCOL" } });
  });

  it("sends deltas together, before the end, and only to those who want them", async () => {
    const { worker, heard } = serve();
    worker.send(open);
    await expect.poll(() => heard[0]).toMatchObject({ type: "host-ready" });
    worker.send({ ...ask(1, "speak"), streams: true } as ToHost);
    await expect.poll(() => heard.length).toBe(3);
    expect(heard.slice(1)).toMatchObject([
      {
        type: "infer-deltas",
        deltas: [
          { id: 1, choice: 0, text: "abc", tokens: 3 },
          { id: 1, choice: 1, text: "d" },
        ],
      },
      { type: "infer-end", id: 1 },
    ]);
    worker.send(ask(2, "speak"));
    await expect.poll(() => heard[3]).toMatchObject({ type: "infer-end", id: 2 });
  });

  it("sends deltas of a request that goes on, and none once it is aborted", async () => {
    const { worker, heard } = serve();
    worker.send(open);
    await expect.poll(() => heard[0]).toMatchObject({ type: "host-ready" });
    worker.send({ ...ask(1, "drone"), streams: true } as ToHost);
    await expect.poll(() => heard[1]).toMatchObject({ deltas: [{ text: "x" }] });
    worker.send({ type: "infer-abort", id: 1 });
    worker.send({ ...ask(2, "speak"), streams: true } as ToHost);
    await expect.poll(() => heard[3]).toMatchObject({ type: "infer-end", id: 2 });
    expect(JSON.stringify(heard)).not.toContain("late");
  });

  it("refuses a request before the engine is open", async () => {
    const { worker, heard } = serve();
    worker.send(ask(1, "early"));
    await expect.poll(() => heard[0]).toMatchObject({ type: "infer-fail", id: 1 });
  });

  it("sends the field that an error of a request names", async () => {
    const { worker, heard } = serve();
    worker.send(open);
    await expect.poll(() => heard[0]).toMatchObject({ type: "host-ready" });
    worker.send(ask(1, "refuse"));
    await expect.poll(() => heard[1]).toMatchObject({ type: "infer-fail", id: 1 });
    const { error } = heard[1] as FromHost & { type: "infer-fail" };
    const read = errorFromRecord(error);
    expect([read.place.field, read.message]).toEqual(["seed", error.message]);
  });

  it("refuses to make tokens where the engine has no tokenizer", async () => {
    const { worker, heard } = serve();
    worker.send(open);
    await expect.poll(() => heard[0]).toMatchObject({ type: "host-ready", tokenizes: false });
    worker.send({ type: "tokenize", id: 3, prompts: [] });
    await expect.poll(() => heard[1]).toMatchObject({ id: 3, error: { code: "PROTOCOL" } });
  });

  it("takes an unnamed failure for the end of the engine", async () => {
    const { worker, heard, fatal } = serve();
    worker.send(open);
    await expect.poll(() => heard.length).toBe(1);
    worker.send(ask(1, "fault"));
    await expect.poll(() => fatal[0]?.message).toBe("unnamed");
    expect(heard).toHaveLength(1);
  });
});
