import { describe, expect, it } from "vitest";
import {
  cudaProblem,
  lockFor,
  type NpmLock,
  openvinoLockFor,
  type PipInstall,
  packagedEngine,
  packageMachine,
} from "../../../src/engines/packages/lock.ts";

const linux = { platform: "linux", architecture: "x64", hardware: "cpu" } as const;

interface LockedPackage {
  version: string;
  integrity?: string;
  resolved?: string;
  dependencies?: Record<string, string>;
}

function packagesOf({ install }: NpmLock): Record<string, LockedPackage> {
  return (install.packageLock as { packages: Record<string, LockedPackage> }).packages;
}

describe("lockFor", () => {
  it("pins every package by version and sha512, and names no registry", () => {
    const { "": root, ...packages } = packagesOf(lockFor("llama", linux));
    expect(Object.keys(packages).length).toBeGreaterThan(100);
    for (const [path, { version, integrity, resolved }] of Object.entries(packages)) {
      expect(version, path).toMatch(/^\d+\.\d+\.\d+/);
      expect(integrity, path).toMatch(/^sha512-[A-Za-z0-9+/]{86}==$/);
      expect(resolved, path).toBeUndefined();
    }
    expect(Object.values(root?.dependencies ?? {})).toEqual(["3.22.1", "3.22.1"]);
  });

  it("is closed: whatever a package needs is in it", () => {
    const packages = packagesOf(lockFor("llama", linux));
    for (const [path, { dependencies = {} }] of Object.entries(packages)) {
      for (const name of Object.keys(dependencies)) {
        const found = Object.keys(packages).some((known) => known.endsWith(`node_modules/${name}`));
        expect(found, `${path} needs ${name}`).toBe(true);
      }
    }
  });

  it("takes only the native packages of the machine", () => {
    const natives = (machine: Parameters<typeof lockFor>[1]) => lockFor("llama", machine).parts;
    expect(natives(linux)).toEqual(["node_modules/@node-llama-cpp/linux-x64"]);
    expect(natives({ ...linux, architecture: "arm64" })).toEqual([
      "node_modules/@node-llama-cpp/linux-arm64",
    ]);
    expect(natives({ ...linux, hardware: "cuda" })).toContain(
      "node_modules/@node-llama-cpp/linux-x64-cuda",
    );
  });

  it("keeps machines apart by folder", () => {
    expect(lockFor("llama", linux).folder).toBe("llama-3.22.1-linux-x64");
    expect(lockFor("llama", { ...linux, hardware: "vulkan" }).folder).toBe(
      "llama-3.22.1-linux-x64-vulkan",
    );
  });

  it("locks transformers.js with the runtime and nothing else", () => {
    const { "": root, ...packages } = packagesOf(lockFor("transformers", linux));
    expect(Object.keys(packages).sort()).toEqual([
      "node_modules/@huggingface/transformers",
      "node_modules/onnxruntime-common",
      "node_modules/onnxruntime-node",
    ]);
    for (const [path, { version, integrity, dependencies = {} }] of Object.entries(packages)) {
      expect(version, path).toMatch(/^\d+\.\d+\.\d+$/);
      expect(integrity, path).toMatch(/^sha512-[A-Za-z0-9+/]{86}==$/);
      for (const name of Object.keys(dependencies)) {
        expect(packages[`node_modules/${name}`]?.version).toBe(dependencies[name]);
      }
    }
    expect(root?.dependencies).toEqual({ "@huggingface/transformers": "4.3.1" });
  });

  it("keeps of the runtime what this machine can load, whatever its GPU", () => {
    const lock = lockFor("transformers", { ...linux, hardware: "cuda" });
    expect(lock.folder).toBe("transformers-4.3.1-linux-x64");
    expect(lock.install.binaries?.kept).toBe("linux/x64");
    expect(Object.keys(lock.install.standIns)).toContain("node_modules/sharp/index.js");
    const sun = { platform: "sunos", architecture: "x64", hardware: "cpu" } as const;
    expect(() => lockFor("transformers", sun)).toThrow(
      expect.objectContaining({ code: "ENGINE_MISSING" }),
    );
  });

  it("refuses a machine it has no integrity for, and says what to do", () => {
    const mac = { platform: "darwin", architecture: "arm64", hardware: "cpu" } as const;
    expect(() => lockFor("llama", mac)).toThrow(
      expect.objectContaining({
        code: "ENGINE_MISSING",
        message: expect.stringContaining("darwin-arm64"),
        hint: expect.stringContaining("npm install node-llama-cpp@3.22.1"),
      }),
    );
  });
});

describe("packagedEngine", () => {
  it("names the nearest, and the ones that need no package", () => {
    expect(packagedEngine("llama")).toBe("llama");
    expect(() => packagedEngine("lama")).toThrow(/did you mean llama\?/);
    expect(() => packagedEngine("openai")).toThrow(/needs no package/);
  });
});

describe("packageMachine", () => {
  it("is the machine that this runs on", () => {
    expect(packageMachine()).toMatchObject({
      platform: process.platform,
      architecture: process.arch,
    });
  });
});

describe("openvinoLockFor", () => {
  const python = { executable: "/usr/bin/python3", version: "3.11" };

  it("pins every package by version and sha256, for this platform alone", () => {
    const lock = openvinoLockFor(linux, python);
    expect(lock.folder).toBe("openvino-2026.4.1.0-linux-x64-python3.11");
    const { requirements } = lock.install as PipInstall;
    expect(requirements.map((line) => line.split("==")[0])).toEqual([
      "openvino-genai",
      "openvino",
      "openvino-tokenizers",
      "openvino-telemetry",
      "numpy",
      "numpy",
    ]);
    for (const line of requirements) {
      expect(line).toMatch(
        /^[a-z-]+==[\d.]+(; python_version [>=]= "3\.1[01]")?( --hash=sha256:[0-9a-f]{64})+$/,
      );
    }
    const arm = openvinoLockFor({ ...linux, architecture: "arm64" }, python);
    expect(arm.install).not.toEqual(lock.install);
  });

  it("refuses a machine that it has no hashes for", () => {
    expect(() => openvinoLockFor({ ...linux, platform: "freebsd" }, python)).toThrow(
      expect.objectContaining({ code: "ENGINE_MISSING", hint: "take engine llama" }),
    );
  });
});

describe("cudaProblem", () => {
  it("names GPUs whose kernels the driver would have to compile, and cannot", () => {
    const capabilities = ["8.9", "9.0", "9.0"];
    expect(cudaProblem({ version: "580.159.04", capabilities })).toBe(
      "with CUDA 13's libraries, engine llama needs driver 590 for compute capability 9.0",
    );
    expect(cudaProblem({ version: "590.44.01", capabilities })).toBeUndefined();
  });

  it("has nothing against GPUs with machine code, nor against unknown ones", () => {
    const capabilities = ["8.6", "12.0", "[N/A]"];
    expect(cudaProblem({ version: "570.86", capabilities })).toBeUndefined();
  });
});
