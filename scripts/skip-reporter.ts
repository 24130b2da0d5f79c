import type { Reporter, TestCase, TestModule } from "vitest/node";

/** Prints, after everything else, each test that did not run and why. */
export default class SkipReporter implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>): void {
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const reason = skipReason(test);
        if (reason !== undefined) {
          console.log(`skipped: ${module.relativeModuleId} > ${test.fullName}: ${reason}`);
        }
      }
    }
  }
}

function skipReason(test: TestCase): string | undefined {
  const result = test.result();
  if (result.state !== "skipped") return undefined;
  return result.note ?? "no reason given";
}
