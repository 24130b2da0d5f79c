import { describe, expect, it } from "vitest";
import {
  type FromHost,
  type HostedEngine,
  hostProtocol,
  type ToHost,
} from "../../../src/engines/host/protocol.ts";
import { serveHost } from "../../../src/engines/host/serve.ts";
import { channelPair } from "../../../src/foundation/channel.ts";
import type { InferenceRequest } from "../../../src/foundation/inference.ts";

const engine: HostedEngine = {
  name: "echo",
  capacity: 2,
  choices: {},
  async infer({ prompt = "" }) {
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

  it("refuses a request before the engine is open", async () => {
    const { worker, heard } = serve();
    worker.send(ask(1, "early"));
    await expect.poll(() => heard[0]).toMatchObject({ type: "infer-fail", id: 1 });
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
