import { existsSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { runCommandLine } from "../../../src/cli/program.ts";
import { maxAdvisedWorkers } from "../../../src/run/advise/advise.ts";
import { preparedRun, scratchFolder } from "../../run/whole-run.ts";
import { call } from "../call.ts";
import { stubIo } from "../io-stub.ts";

const rows = Array.from({ length: 400 }, (_, text) => `${JSON.stringify({ text })}\n`).join("");
const job = ["--input", "rows.jsonl", "--model", "fake", "--prompt", "Say {{ text }}"];
// A row takes 20 ms, and the engine holds two of them: 10 ms a row.
const slow = ["--set", "model.latencyMs=20", "--set", "model.capacity=2", "--show", "0"];

describe("sluice plan --advise", () => {
  it("measures a chunk through the engine, and proposes shards and workers", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    const wishes = ["--deadline", "1h", "--price", "3.60", "--preemption-every", "4h"];
    const found = await call(folder, "plan", ...job, ...slow, "--advise", ...wishes, "--json");
    const { advice, speed, measuredRows, rows: planned } = JSON.parse(found.stdout);
    expect(planned).toBe(400);
    expect(measuredRows).toBe(20);
    expect(speed.rowSeconds).toBeGreaterThanOrEqual(0.019);
    expect(speed.secondsPerRow.estimated).toBeCloseTo(speed.rowSeconds / 2, 6);
    expect(advice).toMatchObject({ meetsDeadline: true, warnings: [], proposed: { workers: 1 } });
    const { proposed, startSeconds, lostSecondsPerPreemption } = advice;
    expect(startSeconds).toBe(speed.startSeconds);
    expect(lostSecondsPerPreemption).toBe(speed.rowSeconds / 2);
    expect(proposed.rowsPerShard * proposed.shards).toBeGreaterThanOrEqual(400);
    // 3.60 dollars an hour are a tenth of a cent a second.
    expect(proposed.usd.estimated).toBeCloseTo(proposed.seconds.estimated / 1000, 9);
    expect(existsSync(join(folder, "out"))).toBe(false);
  });

  it("shows a table, the proposal, and the flags that carry it out", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    const start = ["--machine-start", "9m", "--price", "2"];
    const { stdout } = await call(folder, "plan", ...job, ...slow, "--advise", ...start);
    const title = /^ +workers +tasks +rows each +a task +time +machines +lost$/m;
    expect(stdout).toMatch(title);
    // Nine minutes of start for seconds of work: a second machine would double the price.
    expect(stdout).toMatch(/^→ +1 +\d+ +\d+ .* 9\d\.\d %$/m);
    // How long one takes was measured: on a busy machine it is more than a second.
    expect(stdout).toMatch(/^proposed {2}1 worker, \d+ tasks of \d+ rows: (<1|\d+)s each$/m);
    expect(stdout).toMatch(/^start {5}9m\d\ds until a machine processes its first row$/m);
    expect(stdout).toMatch(/^flags {5}--shard\.rows \d+ --workers\.max 1$/m);
  });

  it("says where a deadline cannot be met", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    const never = ["--deadline", "1m", "--machine-start", "2m"];
    const late = await call(folder, "plan", ...job, ...slow, "--advise", ...never);
    expect(late.stdout).toContain("which is too late");
    expect(late.stdout).toContain(`no number of workers up to ${maxAdvisedWorkers}`);
  });

  it("refuses what is no time, no price, and wishes without --advise", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    const refusals: [string[], string][] = [
      [["--advise", "--deadline", "soon"], "--deadline soon is not a length of time"],
      [["--advise", "--machine-start", ""], "--machine-start  is not a length of time"],
      [["--show", ""], '--show must be a number of rows, not ""'],
      [["--advise", "--price", "cheap"], "--price cheap is not a price per hour"],
      [["--preemption-every", "4h"], "--preemption-every goes with --advise"],
      [["--advise", "--write", "frozen"], "--measure shows an estimate"],
    ];
    for (const [flags, problem] of refusals) {
      const refused = await call(folder, "plan", ...job, ...flags);
      expect(refused.stderr, flags.join(" ")).toContain(problem);
      expect(refused.exitCode).toBe(64);
    }
  });
});

it("a measurement that a signal ends has the code of the signal", async () => {
  const { folder } = preparedRun(scratchFolder(), rows);
  const stub = stubIo({
    workingDirectory: folder,
    process: { ...stubIo().io.process, executable: process.execPath },
    onSignal(listener) {
      const timer = setTimeout(() => listener("SIGINT"), 300);
      return () => clearTimeout(timer);
    },
  });
  const slower = ["--set", "model.latencyMs=5000", "--set", "model.capacity=1"];
  await runCommandLine(["plan", ...job, ...slower, "--measure"], stub.io, { version: "1" });
  await setImmediate();
  expect(stub.state.exitCode).toBe(130);
  expect(stub.written.stderr).toContain("error RUN_CANCELED");
  expect(stub.written.stderr).toContain("hint: a measurement keeps no answers");
});
