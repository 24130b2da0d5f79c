import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { StopSignal } from "../../src/cli/io.ts";
import { runCommandLine } from "../../src/cli/program.ts";
import {
  carriedOut,
  filesOf,
  preparedRun,
  putText,
  scratchFolder,
  textOf,
  type WholeRun,
} from "../run/whole-run.ts";
import { call } from "./call.ts";
import { stubIo } from "./io-stub.ts";

async function sealed(output = "out"): Promise<WholeRun> {
  const run = preparedRun(scratchFolder(), undefined, { maxFailedRows: 4 }, output);
  await carriedOut(run);
  return run;
}

/** Takes the seal and two commits away. */
function unfinished(run: WholeRun): WholeRun {
  const gone = /^(_SUCCESS|_manifest|_sluice\/(seals|manifests|commits\/[34]))/;
  for (const path of filesOf(run)) {
    if (gone.test(path)) rmSync(join(run.location.directory, path));
  }
  return run;
}

const plain = ["--input", "rows.jsonl", "--model", "fake", "--prompt", "Say {{ text }}"];

describe("sluice status", () => {
  it("shows a run with its tasks and workers, by directory or results file", async () => {
    const run = await sealed("y.jsonl");
    for (const name of ["y.jsonl", "y.jsonl.sluice", "./y.jsonl.sluice/"]) {
      const { stdout } = await call(run.folder, "status", name, "--tasks", "--workers");
      expect(stdout).toMatch(/^\d{8}T\d{6}Z {2}successful \(sealed, failed rows: 4\)\n/);
      expect(stdout).toContain(
        "0 failed, 0 canceled, 5 successful, 0 running, 0 pending, 5 in all",
      );
      expect(stdout).toContain("19 answered, 4 failed, 0 open, 23 in all");
      expect(stdout).toContain(`sluice retry ${run.location.directory}`);
      expect(stdout).toMatch(/\ntask {2}id +status +code +rows +failed +worker\n/);
      expect(stdout).toMatch(/\nworker +status +host +pid +engine +device\n/);
    }
  });

  it("cuts no line to the width of a terminal, unless it draws over itself", async () => {
    const run = await sealed();
    const shown = async (args: readonly string[], isOutputTerminal: boolean) => {
      const columns = () => 30;
      // stderr stays a terminal behind a pipe: `sluice status out --watch | tee log`.
      const terminals = { isTerminal: true, isOutputTerminal };
      const stub = stubIo({ workingDirectory: run.folder, columns, ...terminals });
      await runCommandLine(["status", "out", ...args], stub.io, { version: "1" });
      await setImmediate();
      return stub.written.stdout;
    };
    const line = "0 failed, 0 canceled, 5 successful, 0 running, 0 pending, 5 in all\n";
    for (const isTerminal of [true, false]) expect(await shown([], isTerminal)).toContain(line);
    expect(await shown(["--watch"], false)).toContain(line);
    expect(await shown(["--watch"], true)).not.toContain(line);
  });

  it("prints JSON, and how to go on", async () => {
    const run = unfinished(await sealed());
    const { stdout } = await call(run.folder, "status", "out", "--json", "--tasks", "--watch");
    const status = JSON.parse(stdout);
    expect(status).toMatchObject({ state: "canceled", openTasks: "3-4" });
    expect(status.taskList).toHaveLength(5);
    const shown = await call(run.folder, "status", "out");
    expect(shown.stdout).toContain(`sluice worker ${run.location.directory} --tasks 3-4`);
  });
});

describe("sluice results", () => {
  it("prints what is done, and says where it ends", async () => {
    const run = unfinished(await sealed());
    const { stdout, stderr, exitCode } = await call(run.folder, "results", "out");
    expect(stdout.trimEnd().split("\n")).toHaveLength(12);
    expect(stderr).toContain("task 3 of 5 is not done yet");
    expect(exitCode).toBeUndefined();
    const failed = await call(run.folder, "results", "out", "--failed");
    expect(JSON.parse(failed.stdout.split("\n")[0]!)).toMatchObject({ code: "JSON_INVALID" });
  });

  it("says that it waits for a run that nobody works on", async () => {
    const run = unfinished(await sealed());
    const told = Promise.withResolvers<string>();
    const { io } = stubIo({ workingDirectory: run.folder });
    io.stderr.on("data", (chunk: Buffer) => told.resolve(chunk.toString()));
    const stop = new AbortController();
    const onSignal = (listener: (signal: "SIGINT") => void) => {
      stop.signal.addEventListener("abort", () => listener("SIGINT"));
      return () => {};
    };
    const args = ["results", "out", "--follow"];
    const ended = runCommandLine(args, { ...io, onSignal }, { version: "1" });
    expect(await told.promise).toMatch(/^task 3 is not done yet .*nobody works on this run: /);
    stop.abort();
    await ended;
  });

  it("leaves no file if a signal ends it", async () => {
    const run = await sealed();
    for (const name of ["cut.jsonl", "cut.csv", "cut.jsonl.gz"]) {
      for (const [signal, code] of [["SIGINT", 130] as const, ["SIGTERM", 143] as const]) {
        const onSignal = (listener: (signal: StopSignal) => void) => {
          listener(signal);
          return () => {};
        };
        const stub = stubIo({ workingDirectory: run.folder, onSignal });
        const args = ["results", "out", "--output", name];
        await runCommandLine(args, stub.io, { version: "1" });
        await setImmediate();
        expect({ ...stub.written, ...stub.state }).toEqual({
          ...{ stdout: "", stderr: "", exitCode: code },
        });
        expect(readdirSync(run.folder)).not.toContain(name);
      }
    }
  });

  it("prints nothing more once its reader has gone", async () => {
    const run = await sealed();
    const { io, written, state, closeOutput } = stubIo({ workingDirectory: run.folder });
    closeOutput();
    await runCommandLine(["results", "out", "--follow"], io, { version: "1" });
    await setImmediate();
    expect({ ...written, ...state }).toEqual({ stdout: "", stderr: "", exitCode: undefined });
  });
});

describe("sluice verify", () => {
  it("accounts for every row", async () => {
    const run = await sealed();
    const { stdout, exitCode } = await call(run.folder, "verify", "out");
    expect(stdout).toMatch(/^5 tasks, 23 rows, [\d,]+ bytes: every row accounted for\n$/);
    expect(exitCode).toBeUndefined();
    const json = await call(run.folder, "verify", "out", "--json");
    expect(JSON.parse(json.stdout)).toMatchObject({ intact: true, damages: [] });
  });

  it("names each damage, and fails", async () => {
    const run = await sealed();
    putText(run, "part-00001.jsonl", `${textOf(run, "part-00001.jsonl")}{}\n`);
    const { stdout, stderr, exitCode } = await call(run.folder, "verify", "out");
    expect(stdout).toBe("part-00001.jsonl: it has 5 rows, 4 were sealed\n");
    expect(stderr).toContain("error RUN_DAMAGED: the run directory is damaged: 1 finding");
    expect(exitCode).toBe(74);
    const json = await call(run.folder, "verify", "out", "--json");
    expect(JSON.parse(json.stdout)).toMatchObject({ intact: false, damages: [{}] });
    expect(json.exitCode).toBe(74);
  });

  it("says that a run which is not sealed has nothing to verify", async () => {
    const run = unfinished(await sealed());
    const { stderr, exitCode } = await call(run.folder, "verify", "out");
    expect(stderr).toContain("a run is verified once it is sealed");
    expect(exitCode).toBe(74);
  });
});

describe("numbers of flags", () => {
  it.each([
    [["logs", "out", "--share", ""], '--share must be a number from 0, not ""'],
    [["worker", "out", "--generation", "abc"], '--generation must be a number from 1, not "abc"'],
  ])("%j is refused", async (args, problem) => {
    const { folder } = await sealed();
    const { stderr, exitCode } = await call(folder, ...args);
    expect([exitCode, stderr]).toEqual([64, expect.stringContaining(problem)]);
  });
});

describe("sluice seal", () => {
  it("seals what is complete, and names what is not", async () => {
    const run = await sealed();
    const commits = filesOf(run).filter((path) => /commits\/[34]/.test(path));
    const texts = commits.map((path) => textOf(run, path));
    unfinished(run);
    const refused = await call(run.folder, "seal", "out");
    expect(refused.stderr).toContain("tasks 3-4 of 0-4 are not committed");
    expect(refused.exitCode).toBe(75);
    for (const [at, path] of commits.entries()) putText(run, path, texts[at]!);
    const { stdout } = await call(run.folder, "seal", "out");
    expect(stdout).toContain("is sealed: 23 rows, 4 failed rows");
    expect((await call(run.folder, "seal", "out")).stdout).toContain("was sealed already");
    expect((await call(run.folder, "verify", "out")).exitCode).toBeUndefined();
  });
});

describe("sluice clean and sluice cancel", () => {
  it("say what they did", async () => {
    const run = await sealed();
    const dry = await call(run.folder, "clean", "out", "--dry-run");
    expect(dry.stdout).toMatch(/^would remove \d+ files: \d+ bytes to be freed; .* stay under/);
    const { stdout } = await call(run.folder, "clean", "out");
    expect(stdout).toBe(
      dry.stdout.replace("would remove", "removed").replace("to be freed", "freed"),
    );
    expect((await call(run.folder, "clean", "out")).stdout).toBe("there is nothing to remove\n");
    const idle = await call(run.folder, "cancel", "out");
    expect(idle.stdout).toContain("nobody is working on this run");
  });

  it("refuse a run that is not finished", async () => {
    const run = unfinished(await sealed());
    const { stderr, exitCode } = await call(run.folder, "clean", "out");
    expect(stderr).toContain("error RUN_OPEN");
    expect(exitCode).toBe(75);
  });
});

describe("sluice plan", () => {
  it("shows the plan and writes nothing", async () => {
    const { folder } = preparedRun(scratchFolder());
    const { stdout, exitCode } = await call(folder, "plan", ...plain, "--output", "out");
    expect(exitCode).toBeUndefined();
    expect(stdout).toMatch(/^input +1 file, \d+ bytes, 23 rows\nprocess +all rows in \d+ tasks of/);
    expect(stdout).toContain("warning: 3 of 23 sampled rows: VARIABLE_MISSING");
    expect(stdout).toContain("── row 1 (");
    expect(stdout).toContain("[user]\n       Say row 1\n");
    expect(stdout).not.toContain("── row 2");
    expect(readdirSync(folder)).toEqual(["rows.jsonl"]);
    const json = await call(folder, "plan", ...plain, "--json", "--show", "0");
    expect(JSON.parse(json.stdout)).toMatchObject({ rows: 23, shown: [] });
  });

  it("shows rows as they are where an engine is asked without words", async () => {
    const { folder } = preparedRun(scratchFolder());
    const source = "export const predict = (batch) => batch.map(() => 1);";
    writeFileSync(join(folder, "predict.mjs"), source);
    const model = ["--set", "model.engine=predictor", "--set", "model.module=./predict.mjs"];
    const job = ["--input", "rows.jsonl", ...model, "--output", "out"];
    const { stdout, stderr } = await call(folder, "plan", ...job);
    expect(stdout, stderr).toMatch(/── row 1 .*\n {3}row\n {5}\[row\]\n {7}\{.*"text": "row 1"/);
    expect(readdirSync(folder).sort()).toEqual(["predict.mjs", "rows.jsonl"]);
  });

  it("measures where it is to, and knows what a part of the run has cost", async () => {
    const { folder } = preparedRun(scratchFolder());
    const priced = ["prices.promptUsdPerMillion=1", "prices.completionUsdPerMillion=2"];
    const slow = ["model.latencyMs=20", "model.capacity=1", "shard.rows=2"];
    const settings = [...priced, ...slow].flatMap((value) => ["--set", value]);
    const job = [...plain, "--output", "out", ...settings];
    const asked = await call(folder, "plan", ...job);
    expect(asked.stdout).toMatch(/^tokens +about \d+ in, at most [\d,]+ out$/m);
    expect(asked.stdout).toMatch(/^money +at most \$0\.\d+$/m);
    const measured = await call(folder, "plan", ...job, "--measure", "12", "--show", "0");
    expect(measured.stdout).toMatch(/^tokens +about \d+ .*in, about \d+ \(\d+ to \d+\) out$/m);
    expect(measured.stdout).toMatch(/^ +from 12 measured rows, characters \/ \d\.\d+; bounds/m);
    expect(measured.stdout).toMatch(/^money +about \$0\.\d+ \(\$/m);
    expect(measured.stdout).toMatch(/^time +about \d+s/m);
    expect(readdirSync(folder)).toEqual(["rows.jsonl"]);
    const stopped = await call(folder, "run", ...job, "--set", "budget.tokens=20");
    expect([stopped.exitCode, JSON.parse(stopped.stdout).status]).toEqual([75, "CANCELED"]);
    const half = await call(folder, "plan", ...job, "--show", "0");
    expect(half.stdout).toMatch(/^ +from \d+ rows that the run there has done; bounds of 95 %$/m);
    expect(half.stdout).toMatch(/^spent +\d+ tokens, \$0\.\d+, \d+s so far$/m);
    expect((await call(folder, "status", "out")).stdout).toMatch(/budget \d+\/20 tokens spent/);
    // Joining workers together spend more than twice the budget, as if it was set so late.
    expect((await call(folder, "run", ...job, "--set", "budget.tokens=2")).exitCode).toBe(75);
    const { stdout } = await call(folder, "status", "out");
    const spent = Number(/budget (\d+)\/2 tokens spent/.exec(stdout)?.[1]);
    const advised = Number(/sluice resume .*--set budget\.tokens=(\d+)$/m.exec(stdout)?.[1]);
    expect(advised).toBeGreaterThan(spent);
  });

  it("refuses a measurement of too few rows, or of a plan that is frozen", async () => {
    const { folder } = preparedRun(scratchFolder());
    for (const more of [
      ["--measure", "1"],
      ["--measure", "x"],
      ["--measure", "--write"],
    ]) {
      expect((await call(folder, "plan", ...plain, ...more)).exitCode).toBe(64);
    }
    const unpriced = await call(folder, "plan", ...plain, "--set", "budget.usd=1");
    expect(unpriced.exitCode).toBe(64);
    expect(unpriced.stderr).toContain("needs prices");
  });

  it("freezes a run that workers can take on", async () => {
    const { folder } = preparedRun(scratchFolder());
    const { stdout } = await call(folder, "plan", ...plain, "--shard.rows", "5", "--write", "out");
    expect(stdout).toContain("23 rows in 5 tasks, 0 done");
    expect(stdout).toContain(`sluice worker ${join(folder, "out")} --tasks 0-4\n`);
    const half = await call(folder, "worker", "out", "--share", "0/2", "--no-help");
    expect(half.exitCode).toBeUndefined();
    expect((await call(folder, "status", "out")).stdout).toContain("3 successful");
    const again = await call(folder, "plan", ...plain, "--write", "out", "--json");
    expect(JSON.parse(again.stdout)).toMatchObject({ tasks: 5, committedTasks: 3 });
    await call(folder, "worker", "out", "--share", "1/2");
    expect((await call(folder, "verify", "out")).stdout).toContain("every row accounted for");
  });

  it("advises commands that a shell reads, also where the run's folder has spaces", async () => {
    const { folder } = preparedRun(scratchFolder(), '{"text": "a"}\n');
    const job = ["--input", "rows.jsonl", "--model", "fake", "--prompt", "Say {{ text }}"];
    const run = `'${join(folder, "my run")}'`;
    const { stdout } = await call(folder, "plan", ...job, "--write", "my run");
    expect(stdout).toContain(`sluice worker ${run} --tasks 0\n`);
    expect(stdout).toContain(`sluice status ${run}\n`);
    const shown = await call(folder, "status", "my run");
    expect(shown.stdout).toContain(`sluice resume ${run}, or sluice worker ${run} --tasks 0\n`);
    const refused = await call(folder, "seal", "my run");
    expect(refused.stderr).toContain(`hint: sluice worker ${run} --tasks 0`);
  });

  it("refuses standard input, which it would have to keep, and odd numbers", async () => {
    const { folder } = preparedRun(scratchFolder());
    const asked = ["--model", "fake", "--prompt", "x", "--output", "out"];
    const { stderr, exitCode } = await call(folder, "plan", "--input", "-", ...asked);
    expect(stderr).toContain("standard input");
    expect(exitCode).toBe(64);
    expect((await call(folder, "plan", ...plain, "--show", "few")).exitCode).toBe(64);
  });
});

describe("every command that takes a run", () => {
  it("refuses what is none, and says what is near", async () => {
    const run = await sealed();
    for (const name of ["status", "results", "verify", "cancel", "seal", "clean"]) {
      const { stderr, exitCode } = await call(run.folder, name, "nothing");
      expect(stderr, name).toContain(
        `error NOT_A_RUN: there is no run here: ${run.folder}/nothing`,
      );
      expect(exitCode).toBe(64);
      const near = await call(run.folder, name, "out/part-00000.jsonl");
      expect(near.stderr, name).toContain(`${run.location.directory} is a run`);
    }
  });
});
