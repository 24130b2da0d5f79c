import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { sampleJob } from "../../src/cli/first-job.ts";
import { runCommandLine } from "../../src/cli/program.ts";
import { loadJob } from "../../src/run/job/load.ts";
import { stubIo } from "./io-stub.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-init-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function init(...args: string[]) {
  const { io, written, state } = stubIo({ workingDirectory: folder });
  await runCommandLine(["init", ...args], io, { version: "0" });
  return { ...written, exitCode: state.exitCode };
}

const load = (file: string) => loadJob({ file, environment: {}, workingDirectory: folder });

describe("sluice init", () => {
  it("writes a job that is valid, and rows that its prompt can use", async () => {
    expect((await init("first")).exitCode).toBeUndefined();
    const { job } = await load("first/job.yaml");
    expect(job.model).toMatchObject({ engine: "llama", name: "smollm2-135m-instruct" });
    expect(job.input[0]?.path).toBe(join(folder, "first/reviews.jsonl"));
    const rows = readFileSync(job.input[0]!.path, "utf8").trimEnd().split("\n");
    expect(rows.length).toBeGreaterThanOrEqual(5);
    for (const row of rows) expect(Object.keys(JSON.parse(row))).toEqual(["id", "text"]);
  });

  it("says of a place where it cannot write that it cannot", async () => {
    writeFileSync(join(folder, "file"), "");
    const { exitCode, stderr } = await init("file/below");
    expect(stderr).toMatch(/^error STORE_FAILED: .*file\/below/);
    expect(exitCode).toBe(74);
  });

  it("names commands that can be called one after the other", async () => {
    const { stdout } = await init("third");
    expect(stdout).toContain("  sluice run third/job.yaml --model fake --output third/trial  # ");
  });

  it("keeps what is there", async () => {
    await init("twice");
    writeFileSync(join(folder, "twice/job.yaml"), "mine");
    const { exitCode, stderr } = await init("twice");
    expect(exitCode).toBe(64);
    expect(stderr).toContain("error OUTPUT_OCCUPIED");
    expect(readFileSync(join(folder, "twice/job.yaml"), "utf8")).toBe("mine");
  });

  it("has only valid keys behind its comment signs", async () => {
    const switchedOn = sampleJob.replaceAll(/^(\s*)#(?=\w)/gm, "$1");
    expect(switchedOn).not.toBe(sampleJob);
    writeFileSync(join(folder, "all.yaml"), switchedOn);
    const { job } = await load("all.yaml");
    expect(job).toMatchObject({ generation: { seed: 1 }, workers: { max: 2 } });
    expect(job.output.include).toEqual(["usage", "finishReason"]);
  });
});
