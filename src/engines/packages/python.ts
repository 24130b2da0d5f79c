import { SluiceError } from "../../foundation/errors.ts";
import { runLeashed } from "../../foundation/leashed-process.ts";
import { limits } from "../../foundation/limits.ts";
import type { CommandResult } from "../../foundation/subprocess.ts";
import type { ModelContext } from "../models/model-context.ts";
import openvinoLock from "./openvino-lock.json" with { type: "json" };

/** A Python of this machine. */
export interface Python {
  /** Absolute path of its program. */
  executable: string;
  /** Such as `3.11`. Packages with native code fit one version. */
  version: string;
}

type PythonContext = Pick<ModelContext, "environment" | "spawn" | "signal">;

const { oldestPython, newestPython } = openvinoLock;
const minors = Array.from({ length: newestPython[1]! - oldestPython[1]! + 1 }, (_, at) => at);
const programs = ["python3", "python", ...minors.map((at) => `python3.${newestPython[1]! - at}`)];

/**
 * The first suitable Python on PATH: `python3`, or one with its version in its name.
 *
 * @throws SluiceError `ENGINE_MISSING` if there is none.
 */
export async function findPython(context: PythonContext): Promise<Python> {
  const ask = "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])";
  const found: string[] = [];
  for (const program of programs) {
    const said = await tryPython(program, ["-c", ask], context);
    const [executable = "", version = ""] = said?.stdout.trim().split("\n") ?? [];
    if (said?.code !== 0) continue;
    const [major, minor] = version.split(".").map(Number);
    const fits = major === 3 && minor! >= oldestPython[1]! && minor! <= newestPython[1]!;
    if (fits) return { executable, version };
    found.push(`${executable} is ${version}`);
  }
  const wanted = `${oldestPython.join(".")} to ${newestPython.join(".")}`;
  const detail = `engine openvino needs Python ${wanted}; ${found.join(", ") || "there is none"}`;
  throw new SluiceError("ENGINE_MISSING", detail, {
    hint: `put a Python ${wanted} on PATH, or take engine llama, which needs none`,
  });
}

/**
 * Installs exactly the packages in `requirements`, each checked against its hash, into a separate
 * folder.
 *
 * @param requirementsFile lines for pip, with hashes.
 * @throws SluiceError `ENGINE_INSTALL_FAILED` with pip's own reason.
 */
export async function pipInstall(
  directory: string,
  requirementsFile: string,
  { executable }: Python,
  context: PythonContext,
): Promise<void> {
  const args = [
    ...["-m", "pip", "install", "--target", directory, "--requirement", requirementsFile],
    ...["--require-hashes", "--no-deps", "--only-binary=:all:"],
    ...["--no-input", "--quiet", "--disable-pip-version-check"],
  ];
  const result = await tryPython(executable, args, context);
  if (result?.code === 0) return;
  if (result?.stderr.includes("No module named pip")) {
    throw new SluiceError("ENGINE_INSTALL_FAILED", `${executable} has no pip`, {
      hint: "install pip for it (Debian and Ubuntu: python3-pip)",
    });
  }
  const reason = result === undefined ? `${executable} is gone` : pipReason(result);
  throw new SluiceError("ENGINE_INSTALL_FAILED", reason);
}

/** The end of a program of Python; undefined if it is not on PATH. */
export async function tryPython(
  program: string,
  args: readonly string[],
  { environment, spawn, signal }: PythonContext,
): Promise<CommandResult | undefined> {
  const timeoutMs = limits.packageFetchTimeoutMs;
  try {
    return await runLeashed(program, args, {
      ...{ env: environment, timeoutMs },
      ...(signal && { signal }),
      ...(spawn && { spawn }),
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return undefined;
  }
}

/** pip's message about its failure, without passwords in addresses. */
export function pipReason({ stderr, timedOut }: CommandResult): string {
  if (timedOut) return "pip took too long";
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  const errors = lines.filter((line) => /^ERROR:|No module named/.test(line));
  const line = errors[0] ?? lines.at(-1) ?? "pip failed";
  return line
    .replace(/^ERROR:\s*/, "")
    .replaceAll(/\/\/[^/@\s]*@/g, "//")
    .slice(0, 300);
}
