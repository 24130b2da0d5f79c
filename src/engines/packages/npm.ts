import { realpath } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { runLeashed } from "../../foundation/leashed-process.ts";
import { limits } from "../../foundation/limits.ts";
import type { CommandResult } from "../../foundation/subprocess.ts";
import type { ModelContext } from "../models/model-context.ts";

/**
 * Runs `npm ci` in a folder with a `package.json` and a `package-lock.json`: exactly those
 * packages, each checked against its integrity, no install scripts.
 *
 * @throws SluiceError `ENGINE_INSTALL_FAILED` with npm's own reason.
 */
export async function npmCi(
  directory: string,
  context: Pick<ModelContext, "environment" | "spawn" | "signal">,
): Promise<void> {
  const { environment, spawn, signal } = context;
  const [command, ...first] = npmCommand(environment);
  const flags = ["--omit=dev", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"];
  // To npm, a place below a link is another package than the folder that the lock is for.
  const folder = await realpath(directory);
  const args = [...first, "ci", "--prefix", folder, ...flags, "--no-update-notifier"];
  let result: CommandResult;
  try {
    result = await runLeashed(command!, args, {
      cwd: folder,
      env: npmEnvironment(environment),
      timeoutMs: limits.packageFetchTimeoutMs,
      ...(signal ? { signal } : {}),
      ...(spawn ? { spawn } : {}),
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    throw new SluiceError("ENGINE_INSTALL_FAILED", "there is no npm on PATH", {
      cause: error,
      hint: "install npm, or put the engine's package into your project's node_modules",
    });
  }
  if (result.code !== 0) throw new SluiceError("ENGINE_INSTALL_FAILED", npmReason(result));
}

/** The npm that runs our script, else the one on PATH. */
function npmCommand(environment: ModelContext["environment"]): string[] {
  const { npm_execpath: script, npm_node_execpath: node } = environment;
  const isNpm = script !== undefined && basename(script) === "npm-cli.js";
  if (isNpm && node !== undefined) return [node, script];
  return ["npm"];
}

/** Inside an npm script, the environment names that script's project; this is another one. */
function npmEnvironment(environment: ModelContext["environment"]): ModelContext["environment"] {
  const foreign = /^npm_(package_|lifecycle_|config_(local_prefix|global|workspaces?|dry_run)$)/i;
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !foreign.test(name)));
}

/**
 * The content of a `.npmrc` with the settings among the variables that a shell drops, as it passes
 * on names of its own kind alone: `npm_config_//nexus.corp/:_authToken`, `npm_config_strict-ssl`.
 */
export function npmSettings(environment: ModelContext["environment"]): string {
  const lines = Object.entries(environment).flatMap(([variable, value]) => {
    const name = /^npm_config_(.*\W.*)$/i.exec(variable)?.[1];
    if (name === undefined || !value) return [];
    // As npm reads names of variables.
    const key = name.startsWith("//") ? name : name.replace(/(?!^)_/g, "-").toLowerCase();
    return [`${key} = ${JSON.stringify(value)}\n`];
  });
  return lines.join("");
}

function npmReason({ stderr, timedOut, code }: CommandResult): string {
  if (timedOut) return "npm took too long";
  const lines = stderr.split("\n").flatMap((line) => /^npm error (.+)/.exec(line)?.[1] ?? []);
  const telling = lines.filter((line) => !/complete log|^\s*$|^\/|\.log$/.test(line));
  const last = lines.length > 0 ? "" : stderr.trim().split("\n").at(-1);
  const end = `npm ended with code ${code}${last && `: ${last}`}`;
  const text = telling.slice(0, 3).join("; ") || end;
  return text.replaceAll(/\/\/[^/@\s]*@/g, "//").slice(0, 500);
}

/** Folders from `start` up to the root, nearest first. */
export function foldersUpFrom(start: string): string[] {
  const folders = [start];
  for (let at = start; dirname(at) !== at; at = dirname(at)) folders.push(dirname(at));
  return folders;
}
