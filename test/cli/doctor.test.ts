import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { Check } from "../../src/cli/doctor-checks.ts";
import { runCommandLine } from "../../src/cli/program.ts";
import { hasPackage, lockFor, packageMachine } from "../../src/engines/packages/lock.ts";
import { standInDriver, threeGpus } from "../engines/stand-in-driver.ts";
import { stubIo } from "./io-stub.ts";

const a100 = "NVIDIA A100-SXM4-80GB (81920 MiB)";
const folder = mkdtempSync(join(tmpdir(), "sluice-doctor-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const vulkan = { ...packageMachine(), hardware: "vulkan" } as const;

/** What of a package for Vulkan is looked at. */
function placeVulkan(home: string): void {
  const { folder: name, entry, parts, version } = lockFor("llama", vulkan);
  const root = join(home, "engines", name);
  for (const part of [...parts, dirname(entry)]) mkdirSync(join(root, part), { recursive: true });
  writeFileSync(join(root, entry), "");
  writeFileSync(
    join(root, "node_modules/node-llama-cpp/package.json"),
    JSON.stringify({ version }),
  );
}

async function doctor(environment: Record<string, string>, ...args: string[]) {
  const base = { PATH: process.env.PATH, SLUICE_HOME: join(folder, "home") };
  const { io, written, state } = stubIo({
    workingDirectory: folder,
    environment: { ...base, ...environment },
  });
  await runCommandLine(["doctor", ...args], io, { version: "0" });
  return { ...written, exitCode: state.exitCode };
}

async function checks(environment: Record<string, string>, ...args: string[]) {
  const { stdout, exitCode } = await doctor(environment, "--json", ...args);
  const report = JSON.parse(stdout) as { sound: boolean; checks: Check[] };
  return { ...report, exitCode, of: (name: string) => report.checks.find((c) => c.name === name)! };
}

describe("sluice doctor", () => {
  it("looks at everything a run needs, and leaves nothing behind", async () => {
    const { sound, exitCode, of } = await checks({ PATH: "/none" }, "--output", "new/out");
    expect({ sound, exitCode }).toEqual({ sound: true, exitCode: undefined });
    expect(of("output")).toMatchObject({ state: "ok" });
    expect(of("home").detail).toContain(join(folder, "home"));
    expect(of("model smollm2-135m-instruct").state).toBe("note");
    expect(of("engine llama").state).toBe("note");
    expect(of("engine vllm")).toMatchObject({
      state: "note",
      hint: expect.stringContaining("pip install vllm"),
    });
    expect(of("npm")).toMatchObject({ state: "note" });
    expect(of("gpu").state).toBe("note");
    expect(existsSync(join(folder, "new"))).toBe(false);
  });

  it("shows the GPUs, and which of them runs will see", async () => {
    const PATH = `${standInDriver(threeGpus)}:/none`;
    expect((await checks({ PATH })).of("gpu")).toEqual({
      name: "gpu",
      state: "ok",
      detail: `0 NVIDIA L40S (46068 MiB); 1 NVIDIA L40S (46068 MiB); 2 ${a100}`,
    });
    const { of } = await checks({ PATH, CUDA_VISIBLE_DEVICES: "2,1" });
    expect(of("gpu").detail).toMatch(/; CUDA_VISIBLE_DEVICES shows 2, 1$/);
    const broken = await checks({ PATH: standInDriver(["no driver"], 9) });
    expect(broken.of("gpu").detail).toBe("none seen (nvidia-smi: no driver)");
  });

  it("tells when the driver is too old for the kernels of the package for CUDA", async ({
    skip,
  }) => {
    skip(!hasPackage(vulkan), "no package for Vulkan on this platform");
    const h200 = ["0, GPU-1, NVIDIA H200, 143771 MiB"];
    const PATH = `${standInDriver(h200, 0, ["580.159.04, 9.0"])}:/none`;
    const SLUICE_HOME = join(folder, "gpu-home");
    const gpu = (await checks({ PATH, SLUICE_HOME })).of("gpu");
    expect(gpu).toEqual({
      name: "gpu",
      state: "note",
      detail:
        "0 NVIDIA H200 (143771 MiB); driver 580.159.04; " +
        "with CUDA 13's libraries, engine llama needs driver 590 for compute capability 9.0",
      hint: expect.stringContaining("sluice engine add llama --hardware vulkan"),
    });
    placeVulkan(SLUICE_HOME);
    expect((await checks({ PATH, SLUICE_HOME })).of("gpu")).toEqual({
      name: "gpu",
      state: "ok",
      detail: "0 NVIDIA H200 (143771 MiB); driver 580.159.04",
    });
  });

  it("tells whether there is a server that runs could start", async () => {
    const programs = join(folder, "programs");
    mkdirSync(programs);
    writeFileSync(join(programs, "llama-server"), "", { mode: 0o755 });
    const { of } = await checks({ PATH: programs });
    expect(of("engine llama-server").state).toBe("ok");
    expect(of("engine vllm").state).toBe("note");
  });

  it("shows the models of the hub that are here", async () => {
    const onnx = join(folder, "hub-home/models/onnx");
    mkdirSync(join(onnx, "owner/name"), { recursive: true });
    writeFileSync(join(onnx, "owner/name/model.onnx"), "1".repeat(2e6));
    writeFileSync(join(onnx, "0.complete"), "hf:owner/name@main\n");
    const { of } = await checks({ SLUICE_HOME: join(folder, "hub-home") });
    expect(of("model owner/name")).toMatchObject({
      state: "ok",
      detail: `2 MB, ${join(onnx, "owner/name")}`,
    });
  });

  it("fails where results cannot be written", async () => {
    writeFileSync(join(folder, "file"), "");
    const { sound, exitCode, of } = await checks({}, "--output", "file/out");
    expect({ sound, exitCode }).toEqual({ sound: false, exitCode: 69 });
    expect(of("output")).toMatchObject({ state: "missing" });
    expect(of("output").hint).toContain("--output");
  });

  it("fails where models cannot be kept", async () => {
    writeFileSync(join(folder, "occupied"), "");
    const { of } = await checks({ SLUICE_HOME: join(folder, "occupied/home") });
    expect(of("home")).toMatchObject({ state: "missing" });
  });

  it("never shows a secret", async () => {
    const { stdout } = await doctor({
      HTTPS_PROXY: "http://me:hush@proxy:3128",
      HTTP_PROXY: "me:hush@proxy:3129",
      OPENAI_API_KEY: "sk-hush",
    });
    expect(stdout).not.toContain("hush");
    expect(stdout).toContain("HTTPS_PROXY=http://***@proxy:3128");
    expect(stdout).toContain("OPENAI_API_KEY is set");
    expect(stdout).toContain("Sluice can run here.");
  });
});
