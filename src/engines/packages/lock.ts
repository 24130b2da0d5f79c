import { existsSync } from "node:fs";
import { arch, platform } from "node:os";
import { SluiceError } from "../../foundation/errors.ts";
import { nearest } from "../../foundation/suggest.ts";
import type { DriverFacts } from "../devices.ts";
import llamaLock from "./llama-lock.json" with { type: "json" };
import openvinoLock from "./openvino-lock.json" with { type: "json" };
import type { Python } from "./python.ts";
import transformersLock from "./transformers-lock.json" with { type: "json" };

/** The computing device: the CPU, an NVIDIA GPU, or any GPU with Vulkan. */
export const hardwareKinds = ["cpu", "cuda", "vulkan"] as const;
export type Hardware = (typeof hardwareKinds)[number];

/** Engines whose packages are added on demand. */
export const packagedEngines = ["llama", "openvino", "transformers"] as const;
export type PackagedEngine = (typeof packagedEngines)[number];
/** Those added by npm; a project may have them among its own packages. */
export type NpmEngine = Exclude<PackagedEngine, "openvino">;

/** The version of node-llama-cpp for all uses. */
export const llamaVersion = llamaLock.version;

/** The machine of a package, in the words of `node:os`. */
export interface PackageMachine {
  platform: string;
  architecture: string;
  hardware: Hardware;
}

/** Everything needed to add one engine on one machine, with the hash of each package. */
export interface EngineLock {
  engine: PackagedEngine;
  /** The package to import. */
  module: string;
  version: string;
  /** Its file to import, relative to the folder. */
  entry: string;
  /** Name of its folder under `SLUICE_HOME/engines`. */
  folder: string;
  /** Further files of a complete folder. */
  parts: readonly string[];
  install: NpmInstall | PipInstall;
}

/** That of an engine added by npm. */
export type NpmLock = EngineLock & { install: NpmInstall };

/** How npm adds an engine. */
export interface NpmInstall {
  by: "npm";
  /** Files to write beside the packages, by their path in the folder. */
  standIns: Readonly<Record<string, string>>;
  /** A folder with a package's binaries by platform and architecture, and those of this machine. */
  binaries?: { folder: string; kept: string };
  /** Contents of `package.json` and `package-lock.json`. */
  packageJson: object;
  packageLock: object;
}

/** How pip adds an engine. */
export interface PipInstall {
  by: "pip";
  /** Lines of its requirements file. */
  requirements: readonly string[];
  python: Python;
}

const llamaNatives: Readonly<Record<string, Partial<Record<Hardware, readonly string[]>>>> = {
  "linux-x64": {
    cpu: ["linux-x64"],
    // The second one holds the kernels of further GPU generations.
    cuda: ["linux-x64", "linux-x64-cuda", "linux-x64-cuda-ext"],
    vulkan: ["linux-x64", "linux-x64-vulkan"],
  },
  "linux-arm64": { cpu: ["linux-arm64"] },
  "linux-arm": { cpu: ["linux-armv7l"] },
};

/** GPUs for which the package for CUDA holds machine code; read from its library. */
const compiledCapabilities = ["8.6", "8.9", "12.0", "12.1"];
/** Compiles the package's PTX 9.1 for other GPUs; 580 refuses it. */
const compilingDriver = 590;

/** Machines with binaries in `onnxruntime-node`. */
const onnxMachines = ["linux-x64", "linux-arm64", "darwin-arm64", "win32-x64", "win32-arm64"];

/** This machine; an NVIDIA driver makes it a CUDA machine if we have such a package. */
export function packageMachine(): PackageMachine {
  const here = { platform: platform(), architecture: arch() };
  const hardware =
    hasPackage({ ...here, hardware: "cuda" }) && existsSync("/proc/driver/nvidia/version")
      ? "cuda"
      : "cpu";
  return { ...here, hardware };
}

/** Whether engine llama has a package with a known integrity for it. */
export function hasPackage({ platform, architecture, hardware }: PackageMachine): boolean {
  return llamaNatives[`${platform}-${architecture}`]?.[hardware] !== undefined;
}

/** Why engine llama's package for CUDA computes nothing on these GPUs; undefined if it does. */
export function cudaProblem({ version, capabilities }: DriverFacts): string | undefined {
  const known = capabilities.filter((capability) => /^\d/.test(capability));
  const others = known.filter((capability) => !compiledCapabilities.includes(capability));
  if (others.length === 0 || Number.parseInt(version, 10) >= compilingDriver) return undefined;
  const gpus = `compute capability ${[...new Set(others)].join(", ")}`;
  return `with CUDA 13's libraries, engine llama needs driver ${compilingDriver} for ${gpus}`;
}

/**
 * The engine with that name.
 *
 * @throws SluiceError `USAGE` if there is none, or if it needs no package.
 */
export function packagedEngine(name: string): PackagedEngine {
  const found = packagedEngines.find((engine) => engine === name);
  if (found) return found;
  if (name === "openai" || name === "fake") {
    throw new SluiceError("USAGE", `engine ${name} needs no package`, { hint: "just use it" });
  }
  const guess = nearest(name, packagedEngines);
  const detail = guess ? `did you mean ${guess}?` : `known: ${packagedEngines.join(", ")}`;
  throw new SluiceError("USAGE", `there is no engine package ${name}; ${detail}`, {
    hint: "run sluice engine list",
  });
}

/**
 * The lock list of an engine for a machine.
 *
 * @throws SluiceError `ENGINE_MISSING` if it has no package with a known integrity.
 * @example
 * lockFor("llama", { platform: "linux", architecture: "x64", hardware: "cpu" }).folder;
 * // "llama-3.22.1-linux-x64"
 */
export function lockFor(engine: NpmEngine, machine: PackageMachine): NpmLock {
  const lock = engine === "llama" ? llamaLockFor(machine) : transformersLockFor(machine);
  if (lock !== undefined) return lock;
  const { module, version } = pinnedModule(engine);
  throw noLock(
    engine,
    machine,
    `run npm install ${module}@${version} in your project; it is found there`,
  );
}

/**
 * The lock list of engine `openvino` for a machine and its Python.
 *
 * @throws SluiceError `ENGINE_MISSING` if it has no package with a known hash.
 */
export function openvinoLockFor(machine: PackageMachine, python: Python): EngineLock {
  const { module, version, packages } = openvinoLock;
  const place = `${machine.platform}-${machine.architecture}`;
  const requirements = packages.map(({ name, version: pinned, python: fits, sha256 }) => {
    const hashes = (sha256 as Readonly<Record<string, readonly string[]>>)[place];
    if (hashes === undefined) throw noLock("openvino", machine, "take engine llama");
    const marker = fits === undefined ? "" : `; python_version ${fits}`;
    return [`${name}==${pinned}${marker}`, ...hashes.map((hash) => `--hash=sha256:${hash}`)].join(
      " ",
    );
  });
  return {
    engine: "openvino",
    module,
    version,
    entry: "openvino_genai/__init__.py",
    folder: `openvino-${version}-${place}-python${python.version}`,
    parts: ["openvino/__init__.py", "openvino_tokenizers/__init__.py", "numpy/__init__.py"],
    install: { by: "pip", requirements, python },
  };
}

function noLock(engine: PackagedEngine, machine: PackageMachine, hint: string): SluiceError {
  const { platform, architecture, hardware } = machine;
  const detail = `${engine} has no locked package for ${platform}-${architecture} with ${hardware}`;
  return new SluiceError("ENGINE_MISSING", detail, { hint });
}

function llamaLockFor({ platform, architecture, hardware }: PackageMachine): NpmLock | undefined {
  const { version, packages } = llamaLock;
  const place = `${platform}-${architecture}`;
  const natives = llamaNatives[place]?.[hardware]?.map((name) => `@node-llama-cpp/${name}`);
  if (natives === undefined) return undefined;
  const nativeEntries = natives.map((name) => {
    return [`node_modules/${name}`, llamaLock.natives[name as keyof typeof llamaLock.natives]];
  });
  return {
    ...npmModule("llama"),
    engine: "llama",
    parts: natives.map((name) => `node_modules/${name}`),
    folder: `llama-${version}-${place}${hardware === "cpu" ? "" : `-${hardware}`}`,
    install: {
      ...npmFiles("llama", natives, { ...Object.fromEntries(nativeEntries), ...packages }),
      standIns: {},
    },
  };
}

/**
 * Of the package's dependencies only ONNX Runtime: its own file holds the other used parts, and
 * `sharp` (19 MB) is only for images, which are not used here.
 */
function transformersLockFor({ platform, architecture }: PackageMachine): NpmLock | undefined {
  const place = `${platform}-${architecture}`;
  if (!onnxMachines.includes(place)) return undefined;
  const modules = "node_modules";
  const binaries = `${modules}/onnxruntime-node/bin/napi-v6`;
  return {
    ...npmModule("transformers"),
    engine: "transformers",
    parts: [`${modules}/onnxruntime-node`],
    folder: `transformers-${transformersLock.version}-${place}`,
    install: {
      ...npmFiles("transformers", [], transformersLock.packages),
      standIns: {
        [`${modules}/sharp/package.json`]: '{"name":"sharp","version":"0.0.0","main":"index.js"}',
        [`${modules}/sharp/index.js`]:
          'module.exports = () => { throw new Error("images cannot be read here"); };',
      },
      binaries: { folder: binaries, kept: `${platform}/${architecture}` },
    },
  };
}

function npmFiles(
  engine: NpmEngine,
  natives: readonly string[],
  packages: object,
): Pick<NpmInstall, "by" | "packageJson" | "packageLock"> {
  const { module, version } = pinnedModule(engine);
  const dependencies = Object.fromEntries([module, ...natives].map((name) => [name, version]));
  const root = { name: `sluice-engine-${engine}`, version, private: true, dependencies };
  return {
    by: "npm",
    packageJson: root,
    packageLock: {
      name: root.name,
      version,
      lockfileVersion: 3,
      requires: true,
      packages: { "": root, ...packages },
    },
  };
}

/** Like `pinnedModule`, with the file to import relative to the folder above its `node_modules`. */
export function npmModule(engine: NpmEngine): Pick<EngineLock, "module" | "version" | "entry"> {
  const { module, version, entry } = engine === "llama" ? llamaLock : transformersLock;
  return { module, version, entry: `node_modules/${module}/${entry}` };
}

/** Module and version of an engine, the same on every machine. */
export function pinnedModule(engine: PackagedEngine): Pick<EngineLock, "module" | "version"> {
  const { module, version } = {
    llama: llamaLock,
    openvino: openvinoLock,
    transformers: transformersLock,
  }[engine];
  return { module, version };
}
