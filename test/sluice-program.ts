import { join } from "node:path";
import { installed } from "../scripts/installing.ts";
import { root } from "./meta/source-tree.ts";

await installed("packed-package");

/**
 * The `sluice` that tests start: that of the packed package in the integration tiers, whose set-up
 * makes it (`test/packed-package.ts`), and the checkout's own elsewhere or under
 * `TEST_SLUICE_SOURCES=1`, by which a single test starts sooner while it is written.
 */
export const sluiceProgram = process.env.TEST_SLUICE_PROGRAM ?? join(root, "bin/sluice.cjs");

/** What a program of a user's imports as `sluice`, likewise. */
export const sluiceModule =
  process.env.TEST_SLUICE_MODULE ?? new URL("src/index.ts", `file://${root}/`).href;

/** The same of `sluice/testing`. */
export const testingModule = new URL(`testing/index${sluiceModule.slice(-3)}`, sluiceModule).href;
