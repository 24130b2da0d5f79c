import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify, stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { isLong } from "../long.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { sluiceModule, sluiceProgram } from "../sluice-program.ts";

const execute = promisify(execFile);
const script = await execute("script", ["--version"]).catch(() => ({ stdout: "" }));
/** Makes a terminal of its own for a command; the one of BSD has other options. */
const hasTerminals = script.stdout.includes("util-linux");
const noTerminals = "script of util-linux makes the terminal";

/** Runs `sluice` on a terminal of so many columns: what it wrote, and as lines without marks. */
async function onTerminal(folder: string, columns: number, parameters: string[], env = {}) {
  const words = [process.execPath, sluiceProgram, ...parameters].map((word) => `'${word}'`);
  const command = `stty cols ${columns}; exec ${words.join(" ")}`;
  const options = { cwd: folder, env: { ...process.env, TERM: "xterm", ...env } };
  const { stdout } = await execute("script", ["-qec", command, "/dev/null"], options).catch(
    (error: { stdout: string }) => error,
  );
  const raw = stdout.replaceAll("\r\n", "\n");
  return { raw, lines: stripVTControlCharacters(raw).split("\n") };
}

const rows = [
  { id: "a", text: "one" },
  { id: "b", text: "two" },
  { id: "b", title: "no text" },
  { id: "d", title: "four" },
  { id: "e", text: "five" },
  { id: "f", title: "six" },
];
const job = `name: reviews
input: { path: rows.jsonl, id: id }
model: { engine: fake, latencyMs: 30, capacity: 1 }
prompt: "Say {{ text }}"
output: { path: out }
`;

function folderWithJob(more: readonly object[] = []): string {
  const folder = scratchFolder();
  const all = [...rows, ...more];
  writeFileSync(join(folder, "rows.jsonl"), all.map((row) => `${JSON.stringify(row)}\n`).join(""));
  writeFileSync(join(folder, "job.yaml"), job);
  return folder;
}

/** The commands that a summary or a status names. */
const commandsIn = (lines: readonly string[]) =>
  lines.flatMap((line) => /(sluice [\w./ -]+?)(?: {2}|$)/.exec(line)?.[1] ?? []);

describe("sluice on a terminal", () => {
  for (const columns of isLong ? [60, 200] : [60]) {
    it(`ends with what came of the run, in ${columns} columns`, async ({ skip }) => {
      skip(!hasTerminals, noTerminals);
      const folder = folderWithJob();
      const { raw, lines } = await onTerminal(folder, columns, ["run", "job.yaml"]);
      const status = JSON.parse((await runSluice(["status", "out", "--json"], folder)).stdout);
      const manifest = JSON.parse(readFileSync(join(folder, "out/_manifest.json"), "utf8"));
      expect(status.rows).toMatchObject({ total: 6, answered: 3, failed: 3 });
      expect(manifest.usage).toEqual(status.usage);
      const { promptTokens, completionTokens } = manifest.usage;
      const text = lines.join("\n");
      expect(text).toContain("finished with failed rows  reviews");
      expect(text).toContain("  rows     6 rows: 3 answered, 3 failed\n");
      expect(text).toContain(`  tokens   ${promptTokens} in, ${completionTokens} out\n`);
      expect(text).toContain("  ids      1 row repeats the id");
      expect(text).toContain("  failed   3 VARIABLE_MISSING: ");
      expect(text).not.toContain("{");
      expect(raw).toContain("\u001b[33mfinished");
      const wide = lines.filter((line) => line.length > columns);
      expect(wide).toEqual([]);
      const advised = commandsIn(lines);
      expect(advised).toEqual(["sluice results out --failed", "sluice retry out --reread"]);
      const mended = readFileSync(join(folder, "rows.jsonl"), "utf8").replaceAll("title", "text");
      writeFileSync(join(folder, "rows.jsonl"), mended);
      for (const command of advised) {
        const { code } = await runSluice(command.split(" ").slice(1), folder);
        expect(code, command).toBe(0);
      }
      const again = await onTerminal(folder, columns, ["run", "job.yaml"], { NO_COLOR: "1" });
      expect(again.raw).toContain("finished before, nothing to do");
      expect(again.raw).toContain("6 rows: 6 answered\n");
      expect(again.raw).not.toContain("\u001b[3");
    });
  }

  it("gives the line of JSON with --json, and where stdout is no terminal", async ({ skip }) => {
    skip(!hasTerminals, noTerminals);
    const folder = folderWithJob();
    const { lines } = await onTerminal(folder, 60, ["run", "job.yaml", "--json"]);
    const last = lines.findLast((line) => line !== "")!;
    expect(JSON.parse(last)).toMatchObject({ sealed: true, rows: { answered: 3 } });
    const piped = await runSluice(["run", "job.yaml"], folder);
    expect(JSON.parse(piped.stdout)).toMatchObject({ sealed: true, rows: { answered: 3 } });
  });
});

describe("sluice resume", () => {
  it("says of functions of a program that it cannot call them", async () => {
    const folder = folderWithJob();
    const program = `import { dataset } from ${JSON.stringify(sluiceModule)};
      await dataset.jsonl("rows.jsonl")
        .map(() => process.exit(7)).writeJsonl("out");`;
    writeFileSync(join(folder, "program.mjs"), program);
    const ended = execute(process.execPath, ["program.mjs"], { cwd: folder });
    await expect(ended).rejects.toMatchObject({ code: 7 });
    const told = (await runSluice(["status", "out"], folder)).stdout;
    expect(told).toContain("to continue: run the program that began it again\n");
    const { code, stderr } = await runSluice(["resume", "out"], folder);
    expect([code, stderr]).toEqual([64, expect.stringContaining("run that program again")]);
  });

  it("goes on with what stopped, a run or its retry, by its own job and changes", async () => {
    // So many that no call at `slow` is over before its budget has stopped it.
    const texts = Array.from({ length: 97 }, (_, row) => ({ id: `t${row}`, text: `text ${row}` }));
    const titles = Array.from({ length: 37 }, (_, row) => ({ id: row, title: `title ${row}` }));
    const folder = folderWithJob([...texts, ...titles]);
    const rowsOf = (ms: number) => ["--set", `model.latencyMs=${ms}`];
    const [slow, fast] = [rowsOf(100), rowsOf(1)] as const;
    const small = ["--budget.tokens", "3", ...slow];
    const stopped = await runSluice(["run", "job.yaml", ...small], folder);
    expect(stopped.code).toBe(75);
    const before = JSON.parse(stopped.stdout);
    const half = JSON.parse((await runSluice(["status", "job.yaml", "--json"], folder)).stdout);
    expect(half).toMatchObject({ state: "canceled", rowsPerSecond: null });
    // Where the machine is busy, a task may have been over before the budget was looked at.
    const { usage, openUsage } = half;
    expect(openUsage.promptTokens).toBeGreaterThan(0);
    expect(usage.promptTokens + openUsage.promptTokens).toBe(before.prompt_tokens);
    const { stdout: listed } = await runSluice(["runs"], folder);
    expect(listed).toMatch(
      /^run +state +rows +failed +begun +model\nout +canceled +[1-9]\d*\/140 /,
    );
    expect(before.rows.answered).toBeLessThan(100);
    expect((await runSluice(["resume", "out"], folder)).code).toBe(75);
    const told = (await runSluice(["status", "out"], folder)).stdout;
    const [advised, raised] = /sluice resume \S+ --set budget.tokens=(\d+)$/m.exec(told)!;
    await runSluice(advised.split(" ").slice(1), folder);
    const larger = JSON.parse((await runSluice(["status", "out", "--json"], folder)).stdout);
    expect(larger.budget.budget).toEqual({ tokens: Number(raised) });
    const other = await runSluice(["resume", "out", "--set", "generation.temperature=1"], folder);
    expect([other.code, other.stderr]).toEqual([64, expect.stringContaining("RUN_DIFFERS")]);
    const more = ["resume", "job.yaml", "--set", "budget.tokens=100000"];
    const ended = await runSluice([...more, ...fast], folder);
    const summary = JSON.parse(ended.stdout);
    expect(summary).toMatchObject({ run_id: before.run_id, rows: { total: 140, answered: 100 } });
    expect(summary.rows.resumed).toBeGreaterThanOrEqual(before.rows.answered);
    expect((await runSluice(["verify", "out"], folder)).code).toBe(0);
    const done = JSON.parse((await runSluice(["runs", "--json"], folder)).stdout);
    expect(done).toMatchObject({ state: "failed", sealedAt: expect.any(String), duplicateIds: 1 });
    expect(done.ageSeconds).toBe((Date.parse(done.sealedAt) - Date.parse(done.createdAt)) / 1000);
    const words = (await runSluice(["status", "out"], folder)).stdout;
    expect(words).toContain("model  fake\n");
    expect(words).toMatch(/input {2}\S+\/rows\.jsonl \(1 file, 4\.1 kB\)\n/);
    expect(words).toContain("rows   100%: 100 answered, 40 failed, 0 open, 140 in all\n");
    expect(words).toMatch(/rate {3}[\d.]+ rows\/s\n {2}ids {4}1 row repeats an id\n/);

    const spent = JSON.parse((await runSluice(["status", "out", "--json"], folder)).stdout).usage;
    const budget = spent.promptTokens + spent.completionTokens + 1;
    const change = ["--set", "prompt=Say {{ title }}", "--set", `budget.tokens=${budget}`];
    const begun = await runSluice(["retry", "out", ...slow, ...change], folder);
    expect(begun.stderr).toContain("BUDGET_SPENT");
    const { stdout } = await runSluice(["status", "out"], folder);
    expect(stdout).toContain("a retry of 40 rows is begun");
    const [going] = /sluice resume \S+ --set budget.tokens=\d+(?=; to drop)/.exec(stdout)!;
    await runSluice([...going.split(" ").slice(1), ...fast], folder);
    const status = JSON.parse((await runSluice(["status", "out", "--json"], folder)).stdout);
    const all = { total: 140, answered: 140, failed: 0 };
    expect(status).toMatchObject({ openRetry: null, rows: all });
    writeFileSync(join(folder, "rows.jsonl"), "gone\n");
    const again = await runSluice(["resume", "out"], folder);
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining("nothing to do")]);
    expect(JSON.parse(again.stdout)).toMatchObject({ sealed: true, rows: { answered: 140 } });
  });

  it("advises a retry with a budget that is not spent yet", async () => {
    const folder = folderWithJob();
    const run = ["run", "job.yaml", "--seed", "7"];
    const free = await runSluice([...run, "--output.path", "free"], folder);
    const { prompt_tokens, total_tokens_generated } = JSON.parse(free.stdout);
    // Spent with the last answer: no report that comes early ends the run before it.
    const exact = ["--budget.tokens", `${prompt_tokens + total_tokens_generated}`];
    await runSluice([...run, ...exact], folder);
    const { stdout } = await runSluice(["status", "out"], folder);
    const [advised] = /sluice retry \S+ --set budget.tokens=\d+( --reread)?/.exec(stdout)!;
    const change = ["--set", "prompt=Say {{ title }}"];
    const retried = await runSluice([...advised.split(" ").slice(1), ...change], folder);
    expect([retried.code, retried.stderr]).toEqual([0, expect.not.stringContaining("BUDGET")]);
  });
});
