import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { RunFiles } from "../chaos/run-files.ts";
import {
  pause,
  runSluice,
  type SluiceProcess,
  startSluice,
  stillRunning,
} from "../chaos/sluice-process.ts";
import { StandIn } from "../engines/managed/managed-engines.ts";
import type { StandInBehaviour } from "../engines/managed/stand-in-server.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-managed-runs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const command = ["run", "-c", "job.yaml", "--json"];
const inFlight = 8;
const standIns: StandIn[] = [];
afterEach(() => {
  for (const standIn of standIns.splice(0)) standIn.remove();
});

function newRun(rows: number, behaviour: Partial<StandInBehaviour>) {
  const standIn = new StandIn();
  standIns.push(standIn);
  const options = { maxInFlight: inFlight, countFile: undefined };
  const model = standIn.model({ hasChild: true, ...behaviour }, options);
  const directory = join(folder, `run-${Math.random().toString(36).slice(2)}`);
  const files = new RunFiles(directory, { rows, rowsPerTask: rows / 4, workers: 1, model });
  return { standIn, files };
}

async function untilAsked(standIn: StandIn, prompts: number, run: SluiceProcess) {
  while (standIn.prompts.length < prompts && !run.hasEnded()) await pause(10);
}

/** Every server that was started, and what those started, is gone. */
async function expectNoServer(standIn: StandIn): Promise<void> {
  const pids = standIn.starts.flatMap(({ pid, child }) => [pid, child!]);
  expect(await stillRunning(pids, 40_000)).toEqual([]);
}

function expectAskedAgain(standIn: StandIn, rows: number, most: number): void {
  const counts = new Map<string, number>();
  for (const prompt of standIn.prompts) counts.set(prompt, (counts.get(prompt) ?? 0) + 1);
  expect(counts.size).toBe(rows);
  expect(Math.max(...counts.values())).toBeLessThanOrEqual(2);
  expect(standIn.prompts.length - rows).toBeLessThanOrEqual(most);
}

describe("a run over a server that it starts", () => {
  it("answers every row once when the server is killed, those in flight anew", async () => {
    const { standIn, files } = newRun(200, { delayMs: 20, loadMs: 100, hangsFrom: 60 });
    const run = startSluice(command, files.directory);
    await untilAsked(standIn, 60 + inFlight, run);
    process.kill(standIn.starts[0]!.pid, "SIGKILL");
    const { code, stderr } = await run.ended;
    expect(code, stderr).toBe(0);
    expect(files.orderProblem()).toBeUndefined();
    expect(standIn.starts).toHaveLength(2);
    expectAskedAgain(standIn, 200, inFlight);
    expect(stderr).toContain("vllm ended: ");
    await expectNoServer(standIn);
  });

  it("goes on with a new server when its worker is killed, and leaves none behind", async () => {
    const { standIn, files } = newRun(200, { delayMs: 20, hangsFrom: 60 });
    const run = startSluice(command, files.directory);
    await untilAsked(standIn, 60 + inFlight, run);
    process.kill(run.workers[0]!, "SIGKILL");
    const { code, stderr } = await run.ended;
    expect(code, stderr).toBe(0);
    expect(files.orderProblem()).toBeUndefined();
    expect(standIn.starts).toHaveLength(2);
    await expectNoServer(standIn);
  });

  it("gives a row up that kills the server three times alone, and no other", async () => {
    const { standIn, files } = newRun(16, { killedBy: "row 7" });
    const { code, stderr } = await runSluice(command, files.directory);
    expect(code, stderr).toBe(1);
    expect(files.deadLetters()).toMatchObject([{ index: 7, code: "ROW_KILLS_ENGINE" }]);
    expect(files.orderProblem([7])).toBeUndefined();
    await expectNoServer(standIn);
  });

  it("stops the server when it is interrupted", async () => {
    const { standIn, files } = newRun(200, { firstDelayMs: 500 });
    const run = startSluice(command, files.directory);
    await untilAsked(standIn, inFlight + 1, run);
    run.killGroup("SIGINT");
    expect((await run.ended).code).toBe(130);
    await expectNoServer(standIn);
    const again = await runSluice(command, files.directory);
    expect(again.code, again.stderr).toBe(0);
    expect(files.orderProblem()).toBeUndefined();
    expectAskedAgain(standIn, 200, 0);
  });

  it("writes no secret of the environment anywhere, whatever the server prints", async () => {
    const token = "hf_integration12345";
    const { standIn, files } = newRun(16, {
      shows: ["HF_TOKEN", "VLLM_API_KEY"],
      failedStarts: [0],
    });
    const environment = process.env.HF_TOKEN;
    process.env.HF_TOKEN = token;
    try {
      const failed = await runSluice(command, files.directory);
      expect(failed.code, failed.stderr).toBe(69);
      expect(failed.stderr).toContain("HF_TOKEN=[redacted]");
      const done = await runSluice(command, files.directory);
      expect(done.code, done.stderr).toBe(0);
      const said = [failed, done].flatMap(({ stdout, stderr }) => [stdout, stderr]);
      const written = readdirSync(files.directory, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"));
      expect(written.length).toBeGreaterThan(3);
      expect([...said, ...written].filter((text) => text.includes(token))).toEqual([]);
    } finally {
      if (environment === undefined) delete process.env.HF_TOKEN;
      else process.env.HF_TOKEN = environment;
    }
    await expectNoServer(standIn);
  });
});
