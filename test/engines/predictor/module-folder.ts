import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

/** Writes modules, each for one test, into a folder that goes away after the tests of the file. */
export function moduleFolder(): (source: string, ending?: string) => string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-predictor-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  let files = 0;
  return (source, ending = "ts") => {
    const path = join(folder, `module-${files++}.${ending}`);
    writeFileSync(path, source);
    return path;
  };
}
