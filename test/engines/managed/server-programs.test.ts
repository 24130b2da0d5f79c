import { describe, expect, it } from "vitest";
import type { ManagedModelOptions } from "../../../src/engines/managed/options.ts";
import {
  checkOptions,
  commandOf,
  findServerProgram,
  gpusOfVllm,
} from "../../../src/engines/managed/server-programs.ts";
import { modelOptions } from "../../../src/engines/model-options.ts";

const vllm = (options: Record<string, unknown> = {}) =>
  modelOptions.parse({ engine: "vllm", name: "owner/model", ...options }) as ManagedModelOptions;
const llamaServer = (options: Record<string, unknown> = {}) =>
  modelOptions.parse({
    ...{ engine: "llama-server", name: "m.gguf" },
    ...options,
  }) as ManagedModelOptions;

const check =
  (model: ManagedModelOptions, environment = {}) =>
  () =>
    checkOptions(model, environment);

describe("the command line of a managed server", () => {
  it("begins with a program, by default that of the engine's name", () => {
    expect(commandOf(vllm())).toEqual(["vllm"]);
    expect(commandOf(llamaServer({ command: "./server" }))).toEqual(["./server"]);
    expect(commandOf(vllm({ command: ["uv", "run", "vllm"] }))).toEqual(["uv", "run", "vllm"]);
  });

  it("says how many GPUs a vLLM needs", () => {
    const needed = (args: unknown[]) => gpusOfVllm(vllm({ args }));
    expect(needed([])).toBe(1);
    expect(needed(["--tensor-parallel-size", 2])).toBe(2);
    expect(needed(["-tp=2", "--pipeline-parallel-size", "4"])).toBe(8);
    expect(() => needed(["--tensor-parallel-size", "--metrics"])).toThrow(/is not a count/);
  });

  it("may not hold what Sluice gives itself", () => {
    const refused = expect.objectContaining({ code: "JOB_INVALID" });
    expect(check(vllm({ args: ["--port", 80] }))).toThrow(refused);
    expect(check(vllm({ args: ["--api_key=x"] }))).toThrow(refused);
    expect(check(llamaServer({ args: ["-m", "x.gguf"] }))).toThrow(refused);
    expect(check(llamaServer({ args: ["-np", 8] }))).not.toThrow();
  });

  it("may not hold a secret, which the plan would keep", () => {
    const environment = { HF_TOKEN: "hf_abcdefgh123" };
    const withSecret = { args: ["--x", "hf_abcdefgh123"] };
    expect(check(vllm(withSecret), environment)).toThrow(/model\.args/);
    const asProgram = { command: ["env", "hf_abcdefgh123"] };
    expect(check(vllm(asProgram), environment)).toThrow(/model\.command/);
    const asField = { extraBody: { user: { token: "hf_abcdefgh123" } } };
    expect(check(vllm(asField), environment)).toThrow(/model\.extraBody/);
  });

  it("names a program that is there", async () => {
    const missing = findServerProgram(vllm({ command: "no-such-program" }), { PATH: "/bin" });
    await expect(missing).rejects.toMatchObject({
      code: "PROGRAM_MISSING",
      hint: expect.stringContaining("pip install vllm"),
    });
  });
});
