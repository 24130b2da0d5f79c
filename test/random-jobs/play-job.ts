import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import Papa from "papaparse";
import { expect } from "vitest";
import type { RunSummary } from "../../src/run/status/events.ts";
import { startFakeServer } from "../../src/testing/fake-server.ts";
import { pause, runningIn, runSluice, startSluice, stillRunning } from "../chaos/sluice-process.ts";
import { type DrawnJob, type DrawnRow, drawJob, type Kill, type Step } from "./drawn-job.ts";
import { ExpectedRun } from "./expected-run.ts";
import { JobFolder } from "./job-folder.ts";

const maxCalls = 12;
/** Codes of rows that no engine sees. */
const unasked = ["JSON_INVALID", "VARIABLE_MISSING"];
/** Ends of a call that say that the same command continues. */
const goesOn: readonly (number | null)[] = [75, 69, 74, 130, 143, null];

/**
 * Draws a job, does all that is to be done with it by the program, and compares what comes of it
 * with the model after each step.
 *
 * @throws what differs, with the folder of the job, which then stays.
 */
export async function playJob(seed: number): Promise<void> {
  const job = drawJob(seed);
  const path = mkdtempSync(join(tmpdir(), `sluice-random-${seed}-`));
  const folder = await JobFolder.make(path, job);
  const play = new Play(job, folder);
  try {
    for (const step of job.steps) await play.carryOut(step);
    expect(await stillRunning(runningIn(path), 15_000), "processes that stay").toEqual([]);
    rmSync(path, { recursive: true });
  } catch (error) {
    const steps = play.done.join(", ");
    const { message } = error as Error;
    throw new Error(`job ${seed} in ${path}, at the end of ${steps}: ${message}`, { cause: error });
  } finally {
    await folder.close();
  }
}

interface Call {
  code: number | null;
  stdout: string;
  stderr: string;
  /** The last line of stdout, where it is JSON. */
  summary: Partial<Pick<RunSummary, "manifest" | "errors" | "finish_reasons" | "prompt_tokens">>;
}

class Play {
  readonly done: string[] = [];
  readonly #job: DrawnJob;
  readonly #folder: JobFolder;
  readonly #expected: ExpectedRun;
  #kills: Kill[] = [];
  readonly #runCommand = ["run", "-c", "job.yaml"];

  constructor(job: DrawnJob, folder: JobFolder) {
    this.#job = job;
    this.#folder = folder;
    this.#expected = new ExpectedRun(job);
  }

  async carryOut(step: Step): Promise<void> {
    this.done.push(step.kind);
    this.#kills = [...step.kills];
    const { output } = this.#job;
    if (step.kind === "run") return this.#run();
    if (step.kind === "again") return this.#again();
    if (step.kind === "retry") return this.#retry(["retry", output]);
    if (step.kind === "retry-elsewhere") return this.#retryElsewhere();
    if (step.kind === "mend-server") return this.#mendServer();
    if (step.kind === "ask-cut") return this.#askCut();
    if (step.kind === "mend-rows") return this.#mendRows();
    if (step.kind === "extend") return this.#extend(step.rows);
    expect((await this.#call(["clean", output])).code).toBe(0);
    await this.#expectFiles();
  }

  async #run(): Promise<void> {
    const isUndisturbed = this.#kills.length === 0;
    this.#expected.askNewRows();
    await this.#expectEnd(await this.#callUnderKills(this.#runCommand));
    if (isUndisturbed) this.#expectAsked();
  }

  /** The same command does nothing, and says what the first one said. */
  async #again(): Promise<void> {
    const { asked } = this.#folder;
    const before = await this.#call(["results", this.#job.output]);
    await this.#expectEnd(await this.#call(this.#runCommand));
    expect(this.#folder.asked, "asked by the same command").toBe(asked);
    expect(await this.#call(["results", this.#job.output])).toEqual(before);
  }

  async #retry(command: string[]): Promise<void> {
    const isNothingLeft = this.#expected.failed === 0;
    this.#expected.askFailedRows();
    const call = await this.#callUnderKills(command);
    if (!isNothingLeft) return this.#expectEnd(call);
    expect(call).toMatchObject({ code: 0, stdout: "" });
    await this.#expectFiles();
  }

  /** A retry that comes to nothing, for it may not ask, is in nobody's way. */
  async #retryElsewhere(): Promise<void> {
    const behave = () => ({ kind: "status", status: 401 }) as const;
    const server = await startFakeServer({ behave });
    const model = `model={engine: openai, name: m, baseUrl: '${server.baseUrl}'}`;
    const { code } = await this.#call(["retry", this.#job.output, "--set", model]);
    await server.close();
    const codes = this.#expected.errors;
    const isAsked = Object.keys(codes).some((code) => !unasked.includes(code));
    if (isAsked) expect(code).toBe(69);
    const { answered, failed } = this.#expected;
    const status = JSON.parse((await this.#call(["status", this.#job.output, "--json"])).stdout);
    expect(status).toMatchObject({ rows: { answered, failed } });
    await this.#expectFiles();
  }

  /** The command that `status` advises is the one that helps. */
  async #mendServer(): Promise<void> {
    this.#expected.mendServer();
    this.#folder.mendServer();
    if (this.#expected.failed === 0) return;
    const { stdout } = await this.#call(["status", this.#job.output]);
    const advised = /sluice (retry \S+)/.exec(stdout)?.[1];
    expect(advised, stdout).toBeDefined();
    await this.#retry(advised!.split(" "));
  }

  async #askCut(): Promise<void> {
    const isNothingCut = this.#expected.cut === 0;
    this.#expected.askCutRows();
    const command = ["retry", this.#job.output, "--where", "finish_reason=length"];
    const call = await this.#callUnderKills(command);
    if (!isNothingCut) return this.#expectEnd(call);
    expect(call).toMatchObject({ code: 0, stdout: "" });
  }

  async #mendRows(): Promise<void> {
    this.#expected.mendRows();
    this.#folder.writeRows(this.#expected.rows);
    await this.#retry(["retry", this.#job.output, "--reread"]);
  }

  async #extend(rows: readonly DrawnRow[]): Promise<void> {
    this.#folder.appendRows(rows);
    this.#expected.append(rows);
    this.#expected.askNewRows();
    this.#runCommand.push("--extend");
    await this.#expectEnd(await this.#callUnderKills(this.#runCommand));
  }

  async #call(command: readonly string[]): Promise<Call> {
    return callOf(await runSluice(command, this.#folder.path));
  }

  /** Calls again until the run has its end, with the kills that are drawn. */
  async #callUnderKills(command: readonly string[]): Promise<Call> {
    let next = command;
    for (let calls = 1; ; calls++) {
      const kill = this.#kills.pop();
      const process = startSluice(next, this.#folder.path);
      const asked = this.#folder.asked;
      while (kill && !process.hasEnded() && this.#folder.asked < asked + kill.afterAsked) {
        await pause(5);
      }
      if (kill?.whom === "process") process.kill(kill.signal);
      if (kill?.whom === "group") process.killGroup(kill.signal);
      const end = callOf(await process.ended);
      // A retry that ended at a kill says that there is nothing to do.
      if (calls > 1 && end.code === 0 && end.stdout === "") return this.#call(this.#runCommand);
      if (!goesOn.includes(end.code)) return end;
      expect(calls, `not sealed after so many calls: ${end.stderr}`).toBeLessThan(maxCalls);
      // What was killed before its plan cannot be resumed, and the same command begins anew.
      const isBegun = this.#folder.asked > asked;
      next = kill?.isResumed && isBegun ? ["resume", this.#job.output] : command;
    }
  }

  /** Summary, status, manifest, proof, results and dead letters all say what the model says. */
  async #expectEnd({ code, stderr, summary }: Call): Promise<void> {
    const { answered, failed, cut, errors, rows } = this.#expected;
    const counts = { total: rows.length, answered, failed };
    expect({ code, stderr }).toMatchObject({ code: failed > 0 ? 1 : 0 });
    expect(summary).toMatchObject({ status: failed > 0 ? "FAILED" : "SUCCESS", rows: counts });
    const prompts = Object.keys(this.#job.prefixes).length;
    const requests = { planned: rows.length * prompts, answered: answered * prompts };
    expect(summary).toMatchObject({
      request_count: requests.planned,
      response_count: requests.answered,
    });
    expect(summary.finish_reasons ?? { length: 0 }, "cut answers").toMatchObject({ length: cut });
    expect(summary.errors, "errors of the summary").toEqual(errors);
    const status = JSON.parse((await this.#call(["status", this.#job.output, "--json"])).stdout);
    expect(status).toMatchObject({ state: failed > 0 ? "failed" : "successful", rows: counts });
    const manifest = JSON.parse(readFileSync(summary.manifest!, "utf8"));
    expect(manifest).toMatchObject({ rows: counts, requests });
    expect(manifest.usage.promptTokens).toBe(summary.prompt_tokens);
    expect(status.usage).toEqual(manifest.usage);
    for (const facts of [status, manifest]) expect(countsOf(facts.errors)).toEqual(errors);
    await this.#expectFiles();
  }

  async #expectFiles(): Promise<void> {
    const { output } = this.#job;
    const verified = await this.#call(["verify", output]);
    expect(verified).toMatchObject({ code: 0, stderr: "" });
    this.#expectResults((await this.#call(["results", output])).stdout);
    if (output.endsWith(".csv.gz")) this.#expectTable(join(this.#folder.path, output));
    const failures = linesOf((await this.#call(["results", output, "--failed"])).stdout);
    expect(failures.map((line) => pick(JSON.parse(line), "index", "code"))).toEqual(
      this.#expected.outcomes.flatMap((outcome, index) =>
        "code" in outcome ? [{ index, code: outcome.code }] : [],
      ),
    );
  }

  /** The numbers of a table are as their rows have them. */
  #expectTable(path: string): void {
    const text = gunzipSync(readFileSync(path)).toString();
    const { data } = Papa.parse<Record<string, string>>(text, { header: true, newline: "\n" });
    const { rows, outcomes } = this.#expected;
    const answered = rows.filter((_, index) => "answers" in outcomes[index]!);
    const given = data.flatMap(({ id, number }) => (number === undefined ? [] : [{ id, number }]));
    expect(given).toEqual(answered.map(({ id, number }) => ({ id, number })));
  }

  /** Each answered row once, in order, with the digits that it had, and its own answer. */
  #expectResults(text: string): void {
    const { rows, outcomes } = this.#expected;
    const lines = linesOf(text);
    const seen = new Set<string>();
    const expected = rows.filter((_, index) => "answers" in outcomes[index]!);
    expect(lines.map((line) => JSON.parse(line).id)).toEqual(expected.map(({ id }) => id));
    for (const [at, row] of expected.entries()) {
      const line = lines[at]!;
      const { text: words, answer } = JSON.parse(line);
      expect(words, row.id).toBe(row.text);
      expect(/"number": ?"?([^",}]+)/.exec(line)?.[1], `number of ${row.id}`).toBe(row.number);
      this.#expectAnswers(answer, rows.indexOf(row), seen);
    }
  }

  #expectAnswers(answer: unknown, index: number, seen: Set<string>): void {
    const { engine, sampling, prefixes } = this.#job;
    const names = Object.keys(prefixes);
    // Tables hold an object as its text.
    const named = typeof answer === "string" && names.length > 1 ? JSON.parse(answer) : answer;
    const given = names.length > 1 ? names.map((name) => named[name]) : [answer];
    if (engine === "fake") return expect(given.every((text) => text)).toBe(true);
    const { answers } = this.#expected.outcomes[index] as { answers: string[] };
    const isSampled = sampling.temperature > 0 && sampling.seed === undefined;
    if (engine !== "openai" || !isSampled) return expect(given).toEqual(answers);
    expect(given.map((text) => text.replace(/ #\d+$/, ""))).toEqual(answers);
    // Each answer was sampled for its row alone, and has the number of its request behind it.
    const numbers = given.map((text) => / #\d+$/.exec(text)?.[0] ?? "none");
    for (const number of numbers) expect(seen).not.toContain(number);
    for (const number of numbers) seen.add(number);
  }

  /** In a run without kills, each request that counts was seen, and none twice without need. */
  #expectAsked(): void {
    const { outcomes, rows } = this.#expected;
    const { sampling } = this.#job;
    const asked = rows.filter((_, index) => {
      const outcome = outcomes[index]!;
      return "answers" in outcome || !unasked.includes(outcome.code);
    });
    const prompts = Object.keys(this.#job.prefixes).length;
    const isEachAsked = sampling.temperature > 0 && sampling.seed === undefined;
    const texts = new Set(asked.map(({ text, number, fate }) => `${text}/${number}[${fate}]`));
    const again = asked.filter(({ fate }) => fate === "flaky" || fate === "busy").length;
    const deadly = asked.some(({ fate }) => fate === "deadly") ? 100 : 0;
    // The other prompts of a refused row need not be asked.
    const answered = isEachAsked ? this.#expected.answered * prompts : texts.size;
    expect(this.#folder.asked).toBeGreaterThanOrEqual(answered);
    expect(this.#folder.asked).toBeLessThanOrEqual((asked.length + again) * prompts + deadly);
  }
}

function callOf({ code, stdout, stderr }: Omit<Call, "summary">): Call {
  const last = linesOf(stdout).at(-1) ?? "";
  return { code, stdout, stderr, summary: last.startsWith("{") ? JSON.parse(last) : {} };
}

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}

function countsOf(errors: Record<string, { count: number }>): Record<string, number> {
  return Object.fromEntries(Object.entries(errors).map(([code, { count }]) => [code, count]));
}

function pick(value: Record<string, unknown>, ...keys: string[]): Record<string, unknown> {
  return Object.fromEntries(keys.map((key) => [key, value[key]]));
}
