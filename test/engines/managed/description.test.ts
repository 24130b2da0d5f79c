import { describe, expect, it } from "vitest";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { describeEngine, unsupportedOptions } from "../../../src/engines/registry.ts";
import { greedyParameters } from "../../../src/foundation/inference.ts";

const vllm = (options: Record<string, unknown> = {}) =>
  modelOptions.parse({ engine: "vllm", name: "owner/model", ...options });
const llamaServer = (options: Record<string, unknown> = {}) =>
  modelOptions.parse({ engine: "llama-server", name: "m.gguf", ...options });

type Model = ReturnType<typeof vllm>;
const absolute = (model: Model) =>
  describeEngine(model).withAbsolutePaths?.(model, (text) => `/job/${text.replace(/^\.\//, "")}`);

describe("managed servers, before they are opened", () => {
  it("have GPUs as their arguments and the job say", () => {
    const devices = (model: Model) => describeEngine(model).devices?.(model);
    expect(devices(vllm({ args: ["-tp", 2], devices: [1, 3] }))).toEqual({
      devices: [1, 3],
      perWorker: 2,
    });
    expect(devices(llamaServer({ devices: [1] }))).toEqual({ devices: [1] });
    expect(devices(llamaServer({ gpuLayers: 0 }))).toBeUndefined();
  });

  it("have paths relative to the job, and names of PATH and of the hub as they are", () => {
    expect(absolute(vllm({ name: "./folder", command: ["bin/vllm", "./x"] }))).toMatchObject({
      name: "/job/folder",
      command: ["/job/bin/vllm", "./x"],
    });
    expect(absolute(vllm({ command: "vllm" }))).toMatchObject({
      name: "owner/model",
      command: "vllm",
    });
  });

  it("share the cores of a machine among workers", () => {
    const model = llamaServer();
    expect(describeEngine(model).sharedAmong?.(model, 4, 2)).toMatchObject({ threads: 2 });
    expect(describeEngine(model).sharedAmong?.(model, 1, 8)).toEqual(model);
  });

  it("may take as long to get ready as the job says", () => {
    const model = vllm({ loadTimeoutMs: 3_600_000 });
    expect(describeEngine(model).readyTimeoutMs?.(model)).toBeGreaterThan(3_600_000);
  });

  it("say what they do not take", () => {
    const parameters = {
      ...{ ...greedyParameters, maxNewTokens: 1, seed: 0 },
      repetitionPenalty: 1.2,
    };
    expect(unsupportedOptions(llamaServer(), parameters, [])).toMatchObject([
      { option: "generation.repetitionPenalty" },
    ]);
    expect(unsupportedOptions(vllm(), parameters, [])).toEqual([]);
  });

  it("are refused where the model is a folder that is not there", async () => {
    const model = vllm({ name: "/no/such/folder", command: process.execPath });
    const checked = describeEngine(model).check?.(model, { environment: {} } as never);
    await expect(checked).rejects.toMatchObject({ code: "MODEL_UNREADABLE" });
  });

  it("are refused before anything is planned where their program is not there", async () => {
    const missing = { code: "PROGRAM_MISSING" };
    const context = { environment: { PATH: "/bin" } } as never;
    for (const model of [vllm(), llamaServer()]) {
      const checked = describeEngine(model).check?.(model, context);
      await expect(checked).rejects.toMatchObject(missing);
      const prepared = describeEngine(model).prepare?.(model, context, { install: true });
      await expect(prepared).rejects.toMatchObject(missing);
    }
  });
});
