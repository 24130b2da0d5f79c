import { join } from "node:path";
import { afterAll, beforeAll, describe } from "vitest";
import { modelOptions } from "../../src/engines/model-options.ts";
import { openEngine } from "../../src/engines/registry.ts";
import type { InferenceRequest } from "../../src/foundation/inference.ts";
import { type FakeServer, startFakeServer } from "../../src/testing/fake-server.ts";
import { conformanceRequest, engineConformance } from "../conformance/engine-conformance.ts";
import { engineContext } from "./engine-context.ts";
import { StandIn } from "./managed/managed-engines.ts";

const scriptedProgram = join(import.meta.dirname, "command", "scripted-program.ts");
const rejectedRequest: InferenceRequest = {
  ...conformanceRequest(0),
  messages: [{ role: "user", content: "REFUSE" }],
};
const failingRow = 999;

engineConformance("fake, answering at once", async ({ isSlow }) => ({
  engine: await openEngine(
    modelOptions.parse({ engine: "fake", capacity: 4, latencyMs: isSlow ? 50 : 0 }),
    engineContext(),
  ),
  isDeterministic: true,
  tellsDeltas: true,
  enforcesSlots: true,
  answersSeveral: true,
  reportsLogprobs: true,
}));

engineConformance("fake, with latency and failures", async ({ isSlow }) => ({
  engine: await openEngine(
    modelOptions.parse({
      engine: "fake",
      capacity: 3,
      latencyMs: isSlow ? 50 : { min: 0, max: 3 },
      failures: [{ row: failingRow, kind: "refused" }],
    }),
    engineContext(),
  ),
  isDeterministic: true,
  tellsDeltas: true,
  enforcesSlots: true,
  answersSeveral: true,
  reportsLogprobs: true,
  failing: { request: conformanceRequest(failingRow), code: "REQUEST_REFUSED" },
}));

describe("openai", () => {
  let fast: FakeServer;
  let slow: FakeServer;
  beforeAll(async () => {
    fast = await startFakeServer({
      behave: ({ body }) =>
        body.includes(`number ${failingRow}`) ? { kind: "status", status: 500 } : undefined,
    });
    slow = await startFakeServer({ delayMs: 50 });
  });
  afterAll(async () => {
    await fast.close();
    await slow.close();
  });

  engineConformance("openai", async ({ isSlow }) => ({
    engine: await openEngine(
      modelOptions.parse({
        engine: "openai",
        name: "any",
        baseUrl: (isSlow ? slow : fast).baseUrl,
        maxInFlight: 3,
      }),
      engineContext(),
    ),
    isDeterministic: true,
    tellsDeltas: true,
    answersSeveral: true,
    failing: { request: conformanceRequest(failingRow), code: "SERVER_ERROR" },
  }));

  engineConformance("openai, over two addresses", async ({ isSlow }) => {
    const { baseUrl } = isSlow ? slow : fast;
    const endpoints = [{ baseUrl }, { baseUrl: baseUrl.replace("127.0.0.1", "localhost") }];
    const model = { engine: "openai", name: "any", endpoints, maxInFlight: 3 };
    return {
      engine: await openEngine(modelOptions.parse(model), engineContext()),
      isDeterministic: true,
      tellsDeltas: true,
      answersSeveral: true,
      failing: { request: conformanceRequest(failingRow), code: "SERVER_ERROR" },
    };
  });
});

engineConformance("command", async ({ isSlow }) => ({
  engine: await openEngine(
    modelOptions.parse({
      engine: "command",
      command: process.execPath,
      args: [scriptedProgram, isSlow ? "slow" : "ready"],
      maxBatchRows: 4,
    }),
    engineContext({ environment: process.env }),
  ),
  isDeterministic: true,
  tellsDeltas: true,
  answersSeveral: true,
  failing: { request: rejectedRequest, code: "PREDICTION_FAILED" },
}));

describe("vllm", () => {
  const standIn = new StandIn();
  afterAll(() => standIn.remove());

  engineConformance("vllm, managed", async ({ isSlow }) => ({
    engine: await standIn.open({}, { delayMs: isSlow ? 50 : 0 }),
    isDeterministic: true,
    tellsDeltas: true,
    answersSeveral: true,
    failing: {
      request: { ...conformanceRequest(0), messages: [{ role: "user", content: "fail" }] },
      code: "SERVER_ERROR",
    },
  }));
});
