import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { committedFiles } from "../../test/meta/committed.ts";
import type { Mutation } from "./mutation.ts";
import { mutations } from "./mutations.ts";

/**
 * Writes one bug after another into a copy of the tree, and runs the tests that should see it:
 * `npm run mutants`, or `npm run mutants -- TEXT` for bugs whose file or description has the text.
 * Fails if fewer than 90 % are seen. Not Stryker: it makes a mutant of nearly every expression, far
 * more than two cores can test, and few of them are bugs that a reviewer would look for.
 */
const root = join(import.meta.dirname, "../..");
const leastShare = 0.9;
/** A test that never ends has seen the bug as well. */
const testsTimeoutMs = 120_000;
const allTestsTimeoutMs = 900_000;

/** The source with the bug in it. @throws Error if the text does not stand there exactly once. */
export function mutated(source: string, { file, text, replacement, what }: Mutation): string {
  const [before, after, ...others] = source.split(text);
  if (after === undefined || others.length > 0) {
    const found = after === undefined ? "is not there any more" : "stands there more than once";
    throw new Error(`${file}: the text of the mutation "${what}" ${found}: ${text}`);
  }
  return before + replacement + after;
}

function copyTree(): string {
  const copy = mkdtempSync(join(tmpdir(), "sluice-mutants-"));
  for (const file of committedFiles()) {
    mkdirSync(dirname(join(copy, file)), { recursive: true });
    cpSync(join(root, file), join(copy, file));
  }
  mkdirSync(join(root, ".cache"), { recursive: true });
  for (const shared of ["node_modules", ".cache"])
    symlinkSync(join(root, shared), join(copy, shared));
  return copy;
}

/** Whether the tests pass in the copy as it is now. */
async function testsPass(
  copy: string,
  tests: readonly string[],
  isShown = false,
): Promise<boolean> {
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  const options = ["run", "--project", "unit", "--bail", "1", "--reporter", "dot"];
  const child = spawn(process.execPath, [vitest, ...options, ...tests], {
    cwd: copy,
    stdio: isShown ? "inherit" : "ignore",
    // Tests that never end are killed with their whole process group.
    detached: true,
  });
  const end = () => process.kill(-child.pid!, "SIGKILL");
  let isInterrupted = false;
  const interrupt = () => {
    isInterrupted = true;
    end();
  };
  process.once("SIGINT", interrupt);
  const timer = setTimeout(end, isShown ? allTestsTimeoutMs : testsTimeoutMs);
  const [status] = (await once(child, "close")) as [number | null];
  clearTimeout(timer);
  process.off("SIGINT", interrupt);
  if (isInterrupted) throw new Error("interrupted");
  return status === 0;
}

async function isSeen(copy: string, mutation: Mutation): Promise<boolean> {
  const path = join(copy, mutation.file);
  const source = readFileSync(path, "utf8");
  writeFileSync(path, mutated(source, mutation));
  try {
    return !(await testsPass(copy, mutation.tests));
  } finally {
    writeFileSync(path, source);
  }
}

async function main(): Promise<void> {
  const words = process.argv.slice(2);
  const chosen = mutations.filter(({ what, file }) =>
    words.every((word) => what.includes(word) || file.includes(word)),
  );
  for (const mutation of chosen) mutated(readFileSync(join(root, mutation.file), "utf8"), mutation);
  const copy = copyTree();
  process.on("exit", () => rmSync(copy, { recursive: true, force: true }));
  const tests = [...new Set(chosen.flatMap((mutation) => mutation.tests))];
  if (!(await testsPass(copy, tests, true))) throw new Error("tests fail without a bug");
  let seen = 0;
  for (const mutation of chosen) {
    const isDead = await isSeen(copy, mutation);
    if (isDead) seen++;
    console.log(`${isDead ? "seen " : "ALIVE"}  ${mutation.file}: ${mutation.what}`);
  }
  const share = seen / chosen.length;
  console.log(`${seen} of ${chosen.length} bugs are seen, ${(share * 100).toFixed(0)} %`);
  if (!(share >= leastShare)) process.exitCode = 1;
}

if (import.meta.main) await main();
