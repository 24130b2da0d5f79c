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
import { parseArgs } from "node:util";
import { committedFiles } from "../../test/meta/committed.ts";
import { drawnMutations } from "./drawn.ts";
import type { Mutation } from "./mutation.ts";
import { mutations } from "./mutations.ts";

/**
 * Writes one bug after another into a copy of the tree, and runs the tests that should see it:
 * `npm run mutants` takes those of the list, `npm run mutants -- --seed 7` draws 60 (`--count`) by
 * that seed, and `-- TEXT` takes those whose file or description has the text. Fails if fewer than
 * 90 % are seen. Not Stryker: it makes a mutant of nearly every expression, far more than two cores
 * can test.
 */
const root = join(import.meta.dirname, "../..");
const leastShare = 0.9;
/** Tests that never end have seen the bug as well. Their time grows with their files. */
const leastTimeoutMs = 180_000;
const fileTimeoutMs = 3000;

/** A bug that can be written: a whole file with it, and groups of tests that run in turn. */
interface Bug extends Pick<Mutation, "file" | "what"> {
  broken(source: string): string;
  tests: readonly (readonly string[])[];
}

/** The source with the bug in it. @throws Error if the text does not stand there exactly once. */
export function mutated(source: string, { file, text, replacement, what }: Mutation): string {
  const [before, after, ...others] = source.split(text);
  if (after === undefined || others.length > 0) {
    const found = after === undefined ? "is not there any more" : "stands there more than once";
    throw new Error(`${file}: the text of the mutation "${what}" ${found}: ${text}`);
  }
  return before + replacement + after;
}

function listedBugs(): Bug[] {
  return mutations.map((mutation) => ({
    ...mutation,
    broken: (source) => mutated(source, mutation),
    tests: [mutation.tests],
  }));
}

function drawnBugs(seed: number, count: number): Bug[] {
  return drawnMutations(seed, count).map(({ start, end, replacement, tests, nearest, ...bug }) => ({
    ...bug,
    broken: (source) => source.slice(0, start) + replacement + source.slice(end),
    tests: nearest.length < tests.length ? [nearest, tests] : [tests],
  }));
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

/** How the tests end in the copy as it is now. */
async function testsEnd(
  copy: string,
  tests: readonly string[],
  isShown = false,
): Promise<"passed" | "failed" | "killed"> {
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  // Tests that measure time may fail once on a busy machine.
  const options = ["run", "--project", "unit", "--bail", "1", "--retry", "1", "--reporter", "dot"];
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
  let isSlow = false;
  const timer = setTimeout(
    () => {
      isSlow = true;
      end();
    },
    leastTimeoutMs + fileTimeoutMs * tests.length,
  );
  const [status] = (await once(child, "close")) as [number | null];
  clearTimeout(timer);
  process.off("SIGINT", interrupt);
  if (isInterrupted) throw new Error("interrupted");
  if (isSlow) return "killed";
  return status === 0 ? "passed" : "failed";
}

/** What the tests say of a bug; tests that do not end have seen it as well. */
async function lookedFor(
  copy: string,
  { file, broken, tests }: Bug,
): Promise<"seen" | "slow" | "ALIVE"> {
  const path = join(copy, file);
  const source = readFileSync(path, "utf8");
  writeFileSync(path, broken(source));
  try {
    for (const group of tests) {
      const end = await testsEnd(copy, group);
      if (end !== "passed") return end === "failed" ? "seen" : "slow";
    }
    return "ALIVE";
  } finally {
    writeFileSync(path, source);
  }
}

async function main(): Promise<void> {
  const { values, positionals: words } = parseArgs({
    allowPositionals: true,
    options: { seed: { type: "string" }, count: { type: "string", default: "60" } },
  });
  const { seed, count } = values;
  const bugs = seed === undefined ? listedBugs() : drawnBugs(Number(seed), Number(count));
  const chosen = bugs.filter(({ what, file }) =>
    words.every((word) => what.includes(word) || file.includes(word)),
  );
  for (const { file, broken } of chosen) broken(readFileSync(join(root, file), "utf8"));
  const copy = copyTree();
  process.on("exit", () => rmSync(copy, { recursive: true, force: true }));
  const tests = [...new Set(chosen.flatMap((bug) => bug.tests.flat()))];
  if ((await testsEnd(copy, tests, true)) !== "passed") throw new Error("tests fail without a bug");
  let seen = 0;
  for (const bug of chosen) {
    const found = await lookedFor(copy, bug);
    if (found !== "ALIVE") seen++;
    console.log(`${found.padEnd(5)}  ${bug.file}: ${bug.what}`);
  }
  const share = seen / chosen.length;
  console.log(`${seen} of ${chosen.length} bugs are seen, ${(share * 100).toFixed(0)} %`);
  if (!(share >= leastShare)) process.exitCode = 1;
}

if (import.meta.main) await main();
