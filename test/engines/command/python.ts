import { execFileSync } from "node:child_process";

/** Why there is no Python here that Sluice's module runs in; undefined where there is. */
export function pythonMissing(): string | undefined {
  try {
    const version = execFileSync("python3", [
      "-c",
      "import sys; print(sys.version_info >= (3, 9))",
    ]);
    return String(version).trim() === "True" ? undefined : "python3 is older than 3.9";
  } catch {
    return "there is no python3 on this machine";
  }
}
