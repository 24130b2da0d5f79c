import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "sluice-predictor-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

/** A module of its own for one test, as a file; its path. */
export function moduleFile(source: string, ending = "ts"): string {
  const path = join(folder, `module-${files++}.${ending}`);
  writeFileSync(path, source);
  return path;
}
