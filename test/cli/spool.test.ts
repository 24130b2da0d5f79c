import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { runCommandLine } from "../../src/cli/program.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { stubIo } from "./io-stub.ts";

const given = ["--input", "-", "--model", "fake", "--prompt", "Say {{ text }}"];

/** `sluice run` over standard input. */
async function runOver(folder: string, text: string, ...args: string[]) {
  const { io, written, state } = stubIo();
  const stdin = new PassThrough();
  stdin.end(text);
  const process = { ...io.process, executable: globalThis.process.execPath };
  const stub = { ...io, stdin, workingDirectory: folder, process };
  await runCommandLine(["run", ...given, ...args], stub, { version: "1" });
  return { ...written, exitCode: state.exitCode };
}

describe("standard input", () => {
  it("goes on with the run of the same rows, and names itself where they differ", async () => {
    const folder = scratchFolder();
    const first = await runOver(folder, '{"text":"a"}\n');
    expect(JSON.parse(first.stdout)).toMatchObject({ status: "SUCCESS", rows: { answered: 1 } });
    const again = await runOver(folder, '{"text":"a"}\n');
    expect(again.stderr).toContain("this run is finished, there is nothing to do");
    const other = await runOver(folder, '{"text":"b"}\n');
    expect(other.exitCode).toBe(64);
    expect(other.stderr).toContain("RUN_DIFFERS");
    expect(other.stderr).toContain("it differs in standard input (");
  });

  it("is put nowhere, where the output holds something else", async () => {
    const folder = scratchFolder();
    mkdirSync(join(folder, "out"));
    writeFileSync(join(folder, "out", "mine.txt"), "");
    const refused = await runOver(folder, '{"text":"a"}\n');
    expect(refused.stderr).toContain("error OUTPUT_OCCUPIED");
    expect(readdirSync(join(folder, "out"))).toEqual(["mine.txt"]);
  });
});
