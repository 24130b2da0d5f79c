import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { programError, programText } from "../../src/api/program-words.ts";
import { errorTable } from "../../src/foundation/error-table.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import { plan, run } from "../../src/index.ts";
import { scratchFolder } from "../run/whole-run.ts";

/** Flags of our own outside of a command that begins with `sluice`; a bundler has its own. */
const strayFlags = (text: string) =>
  text
    .split(/[;:(,]/)
    .filter((part) => /(^|\s)--(?!external)[a-z]/.test(part) && !/\bsluice /.test(part));

describe("what a program is told", () => {
  it("names options of run in place of flags, in hints and messages of real calls", async () => {
    const folder = scratchFolder();
    writeFileSync(join(folder, "rows.jsonl"), '{"text":"a"}\n');
    const job = { input: "rows.jsonl", model: { engine: "fake" as const }, output: "out" };
    const options = { workingDirectory: folder };
    await run({ ...job, prompt: "{{ text }}" }, options);
    const other = { ...job, prompt: "Say {{ text }}" };
    const differs = await run(other, options).catch((error: unknown) => error);
    expect(differs).toMatchObject({
      code: "RUN_DIFFERS",
      hint: expect.stringMatching(/fork: true .*overwrite: true/),
    });
    expect(strayFlags((differs as SluiceError).hint)).toEqual([]);
    const { notices } = await plan(other, options);
    expect(notices.join()).toContain("fork: true or overwrite: true");

    writeFileSync(join(folder, "rows.jsonl"), '{"text":"a"}\n{"text":"b"}\n');
    const changed = await run({ ...job, prompt: "{{ text }}" }, options).catch(
      (error: unknown) => error,
    );
    expect(changed).toMatchObject({
      code: "INPUT_CHANGED",
      hint: expect.stringMatching(/extend: true.*sluice retry .*--reread.*fork: true/),
    });
    const { summary } = await run(
      { ...job, prompt: "{{ text }}" },
      { ...options, overwrite: true },
    );
    expect(summary).toMatchObject({ status: "SUCCESS", rows: { total: 2 } });
  });

  it("names no flag of its own in any hint of the table", () => {
    const hints = Object.values(errorTable).flatMap(({ hint, message }) => [hint, message]);
    expect(hints.map(programText).flatMap(strayFlags)).toEqual([]);
    expect(hints.some((hint) => strayFlags(hint).length > 0)).toBe(true);
  });

  it("is the very error where it names none", () => {
    const error = new SluiceError("JSON_INVALID", "unexpected end", { file: "a", line: 3 });
    expect(programError(error)).toBe(error);
  });
});
