import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

/**
 * Runs every test and prints `N passed, N failed, N skipped` as the last line, taken from vitest's
 * own report. Fails when a test or a test file failed, and when nothing ran. Arguments go to
 * vitest: `npm test -- test/foundation`.
 */
const root = join(import.meta.dirname, "..");
const cache = join(root, ".cache");
const reportFile = join(cache, "vitest.json");

interface Report {
  numPassedTests: number;
  numFailedTests: number;
  numPendingTests: number;
  numTodoTests: number;
  testResults: { status: string; assertionResults: { status: string }[] }[];
}

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

function runVitest(): number {
  const manifest = createRequire(import.meta.url).resolve("vitest/package.json");
  const { status } = spawnSync(
    process.execPath,
    [join(manifest, "..", "vitest.mjs"), "run", ...process.argv.slice(2)],
    { cwd: root, stdio: "inherit" },
  );
  return status ?? 1;
}

/** A file that broke before its tests, or whose process died, counts as one failure. */
function countsOf(report: Report): Counts {
  const brokenFiles = report.testResults.filter(
    ({ status, assertionResults }) =>
      status === "failed" && assertionResults.every((result) => result.status !== "failed"),
  );
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + brokenFiles.length,
    skipped: report.numPendingTests + report.numTodoTests,
  };
}

function readCounts(): Counts {
  try {
    return countsOf(JSON.parse(readFileSync(reportFile, "utf8")) as Report);
  } catch (error) {
    console.error(`no report of the tests: ${(error as Error).message}`);
    return { passed: 0, failed: 1, skipped: 0 };
  }
}

function main(): void {
  rmSync(reportFile, { force: true });
  const status = runVitest();
  const counts = readCounts();
  // An error outside of every test fails vitest without failing a test.
  if (status !== 0 && counts.failed === 0) counts.failed = 1;
  if (counts.failed > 0 || counts.passed === 0) process.exitCode = 1;
  const line = `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`;
  mkdirSync(cache, { recursive: true });
  writeFileSync(join(cache, "counts.txt"), `${line}\n`);
  console.log(line);
}

main();
