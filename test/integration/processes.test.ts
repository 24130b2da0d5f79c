import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { RunFiles } from "../chaos/run-files.ts";
import {
  isRunning,
  pause,
  runningIn,
  runSluice,
  type SluiceProcess,
  startSluice,
  stillRunning,
} from "../chaos/sluice-process.ts";
import { fileListener, webServer } from "../data/sources/web-server.ts";
import { sluiceProgram } from "../sluice-program.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-processes-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const command = ["run", "-c", "job.yaml", "--json"];
let runs = 0;

function newRun(rows: number, model: Record<string, unknown>, workers = 2): RunFiles {
  const directory = join(folder, `run-${runs++}`);
  return new RunFiles(directory, { rows, rowsPerTask: Math.ceil(rows / 8), workers, model });
}

function lastLine(text: string): Record<string, unknown> {
  return JSON.parse(text.trim().split("\n").at(-1)!) as Record<string, unknown>;
}

async function untilAsked(files: RunFiles, rows: number, run: SluiceProcess): Promise<void> {
  while (files.asked().length < rows && !run.hasEnded()) await pause(20);
}

async function expectVerified(files: RunFiles): Promise<void> {
  const { code, stdout, stderr } = await runSluice(["verify", "out"], files.directory);
  expect(code, stdout + stderr).toBe(0);
}

/** The run goes on under one coordinator, or under two joining workers. */
async function startedBy(who: string, files: RunFiles): Promise<SluiceProcess[]> {
  if (who === "its coordinator") return [startSluice(command, files.directory)];
  await runSluice(["plan", "-c", "job.yaml", "--write"], files.directory);
  const shares = ["0/2", "1/2"].map((share) => ["worker", "out", "--share", share]);
  return shares.map((share) => startSluice(share, files.directory));
}

interface Progress {
  type: string;
  rowsPerSecond: number;
  inFlight: number;
}

/** What each writer of the run's events has said of its progress so far. */
function progressTold(directory: string): Progress[][] {
  const events = join(directory, "out/_sluice/events");
  const names = existsSync(events) ? readdirSync(events).toSorted() : [];
  return names.map((name) => {
    const lines = readFileSync(join(events, name), "utf8").split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line)).filter(({ type }) => type === "run-progress");
  });
}

/** Each choice of one from each. */
function choices<Item>([first, ...rest]: Item[][]): Item[][] {
  return first ? first.flatMap((one) => choices(rest).map((others) => [one, ...others])) : [[]];
}

describe("a run of real processes", () => {
  it("stops cleanly at ctrl-C, says so by 130, and goes on at the next call", async () => {
    // A quarter of a minute of work: it is not over before it is stopped.
    const files = newRun(400, { latencyMs: 300, capacity: 4 });
    const first = startSluice(command, files.directory);
    await untilAsked(files, 24, first);
    // A terminal sends it to the whole group: the workers get it as well.
    first.killGroup("SIGINT");
    const stopped = await first.ended;
    expect(stopped.code, stopped.stderr).toBe(130);
    expect(lastLine(stopped.stdout)).toMatchObject({
      status: "CANCELED",
      sealed: false,
      stopped_by: { code: "RUN_CANCELED", message: "the run was canceled: by SIGINT" },
    });
    expect(await stillRunning(first.workers)).toEqual([]);
    const asked = files.asked().length;
    expect(files.journaled().size).toBe(asked);

    const second = await runSluice([...command, "--model.latencyMs", "1"], files.directory);
    expect(second.code, second.stderr).toBe(0);
    const { rows } = lastLine(second.stdout) as { rows: { resumed: number } };
    expect(rows.resumed).toBe(asked);
    expect(files.asked().length).toBe(400);
    expect(files.orderProblem()).toBeUndefined();
    await expectVerified(files);
  });

  it("ends at once at ctrl-C while it is planned, and the same call begins again", async () => {
    const files = newRun(20, { latencyMs: 1 });
    const content = readFileSync(join(files.directory, "rows.jsonl"));
    const whole = fileListener(() => content);
    const planning = Promise.withResolvers<void>();
    let isHeld = true;
    const server = await webServer((request, response) => {
      planning.resolve();
      if (!isHeld) whole(request, response);
    });
    const over = [...command, "--input", `${server.origin}/rows.jsonl`];
    const first = startSluice(over, files.directory);
    await planning.promise;
    first.kill("SIGINT");
    // A shell says 130 of this.
    expect(await first.ended).toMatchObject({ signal: "SIGINT", stdout: "" });
    expect(await stillRunning(runningIn(files.directory))).toEqual([]);

    isHeld = false;
    const second = await runSluice(over, files.directory);
    expect(second.code, second.stderr).toBe(0);
    expect(files.orderProblem()).toBeUndefined();
    await expectVerified(files);
  });

  it("leaves at once at the second ctrl-C, and still loses nothing that was answered", async () => {
    const files = newRun(200, { latencyMs: 1500, capacity: 10 });
    const first = startSluice(command, files.directory);
    await untilAsked(files, 30, first);
    first.kill("SIGINT");
    const isTold = () => first.stderr().includes("Ctrl-C again ends at once");
    while (!isTold() && !first.hasEnded()) await pause(10);
    first.kill("SIGINT");
    // A shell says 130 of this.
    expect(await first.ended).toMatchObject({ signal: "SIGINT" });
    expect(await stillRunning(first.workers)).toEqual([]);
    const second = await runSluice([...command, "--model.latencyMs", "1"], files.directory);
    expect(second.code, second.stderr).toBe(0);
    expect(files.orderProblem()).toBeUndefined();
    await expectVerified(files);
  });

  for (const kind of ["kill-worker", "kill-engine"]) {
    it(`dead-letters a row of kind ${kind} alone and answers all its neighbours`, async () => {
      const model = { latencyMs: 2, capacity: 8, failures: [{ row: 7, kind }] };
      const files = newRun(40, model);
      const { code, stdout, stderr } = await runSluice(command, files.directory);
      expect(code, stderr).toBe(1);
      expect(lastLine(stdout)).toMatchObject({ rows: { answered: 39, failed: 1 }, sealed: true });
      expect(files.deadLetters()).toMatchObject([{ index: 7, code: "ROW_KILLS_ENGINE" }]);
      expect(files.orderProblem([7])).toBeUndefined();
      await expectVerified(files);
    });
  }

  it("ends the run at a row that kills workers, where onRowError is fail", async () => {
    const failures = [{ row: 7, kind: "kill-worker" }];
    const files = newRun(40, { latencyMs: 2, capacity: 8, failures });
    const failing = [...command, "--onRowError", "fail"];
    for (const _ of ["first", "again"]) {
      const { code, stdout, stderr } = await runSluice(failing, files.directory);
      expect([code, stderr]).toEqual([1, expect.stringContaining("error ROW_FAILED")]);
      expect(stderr).toContain("row 7, with its worker");
      expect(lastLine(stdout)).toMatchObject({ sealed: false, rows: { failed: 1 } });
    }
    const { code, stderr } = await runSluice(command, files.directory);
    expect(code, stderr).toBe(1);
    expect(files.deadLetters()).toMatchObject([{ index: 7, code: "ROW_KILLS_ENGINE" }]);
    await expectVerified(files);
  });

  it("gives up a row that ends the process of a joining worker, and that row alone", async () => {
    const model = { latencyMs: 2, capacity: 8, failures: [{ row: 7, kind: "kill-worker" }] };
    const files = newRun(40, model);
    const planned = await runSluice(["plan", "-c", "job.yaml", "--write"], files.directory);
    expect(planned.code, planned.stderr).toBe(0);
    const worked = await runSluice(["worker", "out", "--share", "0/1"], files.directory);
    expect(worked.code, worked.stderr).toBe(1);
    expect(files.deadLetters()).toMatchObject([{ index: 7, code: "ROW_KILLS_ENGINE" }]);
    expect(files.orderProblem([7])).toBeUndefined();
    await expectVerified(files);
  });

  it("is made by four shells with a share each, and sealed by the last of them", async () => {
    const files = newRun(200, { latencyMs: 5, capacity: 4 });
    const planned = await runSluice(["plan", "-c", "job.yaml", "--write"], files.directory);
    expect(planned.code, planned.stderr).toBe(0);
    const shares = [0, 1, 2, 3].map((share) =>
      runSluice(["worker", "out", "--share", `${share}/4`], files.directory),
    );
    for (const { code, stderr } of await Promise.all(shares)) expect(code, stderr).toBe(0);
    expect(files.asked().length).toBe(200);
    expect(files.orderProblem()).toBeUndefined();
    await expectVerified(files);
  });

  for (const who of ["its coordinator", "its joining workers"]) {
    it(`is as fast for status as ${who} said last`, async () => {
      const files = newRun(4000, { latencyMs: 100, capacity: 4 });
      const started = await startedBy(who, files);
      const statusNow = async () => {
        const { stdout } = await runSluice(["status", "out", "--json"], files.directory);
        return JSON.parse(stdout) as { rowsPerSecond: number; live: { inFlight: number } };
      };
      const told = () => progressTold(files.directory);
      const hasTold = () => told().filter(({ length }) => length > 0).length === started.length;
      while (!hasTold()) await pause(100);
      const before = told();
      const status = await statusNow();
      // Each may have said more meanwhile, before its file was read or after it.
      const last = told().map((all, at) => all.slice(before[at]!.length - 1));
      const sums = choices(last).map((chosen) => ({
        rowsPerSecond: chosen.reduce((sum, it) => sum + it.rowsPerSecond, 0),
        live: { inFlight: chosen.reduce((sum, it) => sum + it.inFlight, 0) },
      }));
      const isOf = (sum: (typeof sums)[number]) =>
        Math.abs(sum.rowsPerSecond - status.rowsPerSecond) < 1e-6 &&
        sum.live.inFlight === status.live.inFlight;
      expect(sums.filter(isOf), JSON.stringify({ status, sums })).not.toEqual([]);
      expect(status.rowsPerSecond).toBeGreaterThan(10);
      for (const process of started) process.kill("SIGINT");
      await Promise.all(started.map(({ ended }) => ended));
      expect(await statusNow()).toMatchObject({
        ...{ state: "canceled", reason: "stopped", rowsPerSecond: null, live: null },
      });
    });
  }

  it("refuses a second coordinator while the first lives, by 75", async () => {
    // Minutes of work: the first lives until it is stopped here.
    const files = newRun(400, { latencyMs: 2500, capacity: 2 });
    const first = startSluice(command, files.directory);
    await untilAsked(files, 4, first);
    const second = await runSluice(command, files.directory);
    expect(second.code, second.stderr).toBe(75);
    expect(second.stderr).toContain("COORDINATOR_LIVES");
    expect(isRunning(first.pid)).toBe(true);
    first.kill("SIGINT");
    expect((await first.ended).code).toBe(130);
    const third = await runSluice([...command, "--model.latencyMs", "1"], files.directory);
    expect(third.code, third.stderr).toBe(0);
    expect(files.asked().length).toBe(400);
    await expectVerified(files);
  });

  it("ends at once at a second Ctrl-C as a container's first process, too", async ({ skip }) => {
    const apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    skip(spawnSync(apart[0]!, [...apart.slice(1), "true"]).status !== 0, "no namespaces here");
    // Its requests end long after this test.
    const files = newRun(16, { latencyMs: 600_000, capacity: 2 });
    const first = startSluice(command, files.directory, {}, apart);
    await first.workerStarted;
    await untilAsked(files, 4, first);
    const inside = readFileSync(`/proc/${first.pid}/task/${first.pid}/children`, "utf8");
    for (let time = 0; time < 2; time++) {
      process.kill(Number(inside), "SIGINT");
      while (!first.stderr().includes("stopping: ") && !first.hasEnded()) await pause(20);
    }
    expect((await first.ended).code).toBe(130);
  });

  it("is refused from another container of the same name, also with --overwrite", async ({
    skip,
  }) => {
    const apart = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    const probe = spawnSync("unshare", [...apart, "true"]);
    skip(probe.status !== 0, "namespaces cannot be made here");
    const files = newRun(400, { latencyMs: 500, capacity: 2 });
    // A living leader with pid numbers of its own, which are free or another's out here.
    const inside = spawn("unshare", [...apart, process.execPath, sluiceProgram, ...command], {
      cwd: files.directory,
      stdio: "ignore",
    });
    try {
      while (files.asked().length < 8 && inside.exitCode === null) await pause(20);
      for (const more of [[], ["--overwrite"]]) {
        const second = await runSluice([...command, ...more], files.directory);
        expect(second.stderr).toContain("COORDINATOR_LIVES");
        expect(second.code).toBe(75);
      }
      expect(inside.exitCode).toBeNull();
    } finally {
      inside.kill("SIGKILL");
    }
    // Dead, it is seen to be so by its heartbeat.
    const after = [...command, "--overwrite", "--model.latencyMs", "1"];
    const { code, stderr } = await runSluice(after, files.directory);
    expect(code, stderr).toBe(0);
  });
});
