import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it, onTestFinished, type TestContext } from "vitest";
import { killQuietly, runSluice, startSluice } from "../chaos/sluice-process.ts";
import { untilGone } from "../live-processes.ts";
import { answeredIn, expectWhole } from "../scheduled-job.ts";

/** A person with a job, `job.yaml` of a folder, for two workers of a backend. */
export interface BackendPerson {
  folder: string;
  /** Its run, as commands name it. */
  out: string;
  /** The folder of this disk that has the run's files. */
  stored: string;
  environment: Readonly<Record<string, string>>;
}

/** A backend under test, whose machines are processes of this one. */
export interface TestedBackend {
  /** Skips a test where the backend cannot work. */
  beforeEach(context: TestContext): void;
  /** Rows `r0`, `r1`, … of 100 ms each, by engine `fake`, five a task. */
  person(rows: number): BackendPerson;
}

/**
 * Tests what every backend promises of a job, whoever starts its workers.
 *
 * @example
 * backendConformance("slurm", { beforeEach: skipWithoutSlurm, person: login });
 */
export function backendConformance(name: string, { beforeEach: skip, person }: TestedBackend) {
  describe(`backend conformance: ${name}`, () => {
    beforeEach(skip);

    it("gives up the row that kills workers and a refused one, and all agree", async () => {
      const me = callsOf(person(20));
      const failures = "[{row: 7, kind: refused}, {row: 13, kind: kill-worker}]";
      const ended = await me.call("run", "job.yaml", "--set", `model.failures=${failures}`);
      expect(ended, ended.stderr).toMatchObject({ code: 1 });
      const rows = { total: 20, answered: 18, failed: 2 };
      const errors = { REQUEST_REFUSED: 1, ROW_KILLS_ENGINE: 1 };
      const summary = summaryOf(ended);
      expect(summary).toMatchObject({ sealed: true, rows, errors });
      expect(await me.status()).toMatchObject({
        ...{ rows, errors: { REQUEST_REFUSED: { count: 1 }, ROW_KILLS_ENGINE: { count: 1 } } },
      });
      const { usage, ...manifest } = me.manifest();
      expect(manifest).toMatchObject({ rows });
      expect(usage.completionTokens).toBe(summary.total_tokens_generated);
      expect(me.deadLetters()).toEqual([
        ["r7", "REQUEST_REFUSED"],
        ["r13", "ROW_KILLS_ENGINE"],
      ]);
      const retried = await me.call("retry", me.out, "--set", "model.failures=[]");
      expect(retried, retried.stderr).toMatchObject({ code: 0 });
      expect(await me.status()).toMatchObject({ rows: { total: 20, answered: 20, failed: 0 } });
      expect(me.deadLetters()).toEqual([]);
      await expectWhole(me.place, 20);
      for (const again of [await me.call("retry", me.out), await me.call("run", "job.yaml")]) {
        expect(again, again.stderr).toMatchObject({ code: 0 });
        expect(again.stderr).toContain("there is nothing to do");
      }
    });

    it("loses no row to a killed worker, a cancel and a killed coordinator", async () => {
      const me = callsOf(person(80));
      // Few rows that take long leave as much time as many short ones, and compute less. The first
      // call must not be over before it is canceled, which takes some seconds.
      const calling = (latencyMs: number) =>
        ["run", "job.yaml", "--set"].concat(`model.latencyMs=${latencyMs}`);
      const first = me.start(...calling(700));
      await me.untilAnswered(2, first);
      const [victim] = await me.workers();
      killQuietly(victim!, "SIGKILL");
      await me.untilAnswered(8, first);
      const canceled = await me.call("cancel", me.out);
      expect(canceled, canceled.stderr).toMatchObject({ code: 0 });
      const stopped = await first.ended;
      expect(stopped, stopped.stderr).toMatchObject({ code: 75 });
      const before = summaryOf(stopped);
      expect(before).toMatchObject({ status: "CANCELED", sealed: false });
      const told = await me.status();
      expect(told).toMatchObject({ state: "canceled" });
      expect(told.rows.answered + told.rows.journaled).toBe(before.rows.answered);

      const second = me.start(...calling(200));
      await me.untilAnswered(before.rows.answered + 2, second);
      second.killGroup("SIGKILL");
      await second.ended;
      const third = await me.call(...calling(200));
      expect(third, third.stderr).toMatchObject({ code: 0 });
      const rows = { total: 80, answered: 80, failed: 0 };
      expect(summaryOf(third)).toMatchObject({ status: "SUCCESS", sealed: true, rows });
      expect(await me.status()).toMatchObject({ state: "successful", rows });
      expect(me.manifest()).toMatchObject({ rows });
      await expectWhole(me.place, 80);
      await untilGone(await me.workers());
    });
  });
}

/** What a person calls and reads. */
function callsOf({ folder, out, stored, environment }: BackendPerson) {
  const place = out.includes("://") ? out : join(folder, out);
  const call = (...words: string[]) => runSluice(words, folder, environment);
  const status = async () =>
    JSON.parse((await call("status", out, "--json", "--workers")).stdout || "{}");
  const linesOf = (name: string) => {
    const directory = join(stored, name);
    if (!existsSync(directory)) return [];
    const files = readdirSync(directory).filter((file) => !file.startsWith("."));
    return files.flatMap((file) =>
      readFileSync(join(directory, file), "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
    );
  };
  return {
    ...{ out, place, call, status },
    start(...words: string[]) {
      const running = startSluice(words, folder, environment);
      onTestFinished(() => running.killGroup("SIGKILL"));
      return running;
    },
    manifest: () => JSON.parse(readFileSync(join(stored, "_manifest.json"), "utf8")),
    deadLetters: () => linesOf("_dead-letters").map(({ id, code }) => [id, code]),
    /** The processes of workers that the run's last call had. */
    async workers(): Promise<number[]> {
      const { workerList = [] } = await status();
      return workerList.map(({ pid }: { pid: number }) => pid);
    },
    async untilAnswered(count: number, running: ReturnType<typeof startSluice>): Promise<void> {
      while ((await answeredIn(stored)) < count) {
        if (running.hasEnded()) throw new Error((await running.ended).stderr);
        await new Promise((resolve) => setTimeout(resolve, 300));
      }
    },
  };
}

const summaryOf = ({ stdout }: { stdout: string }) =>
  JSON.parse(stdout.trimEnd().split("\n").at(-1)!);
