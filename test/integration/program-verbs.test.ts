import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { installPacked } from "../packed-package.ts";

/** What programs do with runs, by the packed package. */
const folder = mkdtempSync(join(tmpdir(), "sluice-program-verbs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
mkdirSync(join(folder, "node_modules"));
symlinkSync(installPacked(), join(folder, "node_modules/sluice"));
writeFileSync(join(folder, "package.json"), '{ "name": "program", "type": "module" }');
const rows = Array.from({ length: 12 }, (_, id) => `{"id":${id},"text":"row ${id}"}\n`);
writeFileSync(join(folder, "rows.jsonl"), rows.join(""));

let programs = 0;

/** Runs a program, whose last line is what it has to say. */
function program(text: string): Promise<{ said: unknown; stderr: string }> {
  const file = join(folder, `program-${programs++}.mjs`);
  writeFileSync(file, `import * as sluice from "sluice";\n${text}`);
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [file], { cwd: folder }, (error, stdout, stderr) => {
      if (error) return reject(new Error(stderr));
      resolve({ said: JSON.parse(stdout.trim().split("\n").at(-1)!), stderr });
    });
  });
}

const job = `{
  input: "rows.jsonl",
  model: { engine: "fake", failures: [{ row: 3, kind: "refused" }, { row: 7, kind: "refused" }] },
  prompt: "Say {{ text }}",
  shard: { rows: 4 },
}`;

describe("a program", () => {
  it("runs, retries twice, drops a retry, verifies, cleans and lists", async () => {
    const { said, stderr } = await program(`
      const output = "out";
      const job = ${job};
      const first = await sluice.run({ ...job, output }, { progress: true });
      const idle = await sluice.cancel(output);
      const one = [{ row: 7, kind: "refused" }];
      const second = await sluice.retry(output, { set: { "model.failures": one } });
      const none = await sluice.abandonRetry(output);
      const dry = await sluice.clean(output, { dryRun: true });
      const third = await sluice.retry(output, { set: { "model.failures": [] } });
      const nothing = await sluice.retry(output);
      const resumed = await sluice.resume(output);
      const cleaned = await sluice.clean(output);
      const { damages } = await sluice.verify(output);
      const found = [];
      for await (const { location, status } of sluice.runs()) found.push([location, status.state]);
      const ids = [];
      for await (const { id } of sluice.results(output)) ids.push(id);
      const failed = [first, second, third, resumed].map(({ summary }) => summary.rows.failed);
      const isFreed = dry.freedBytes > 0 && cleaned.freedBytes > 0;
      const undefineds = [none, nothing].map((value) => value === undefined);
      const facts = { idle, failed, isFreed, undefineds, damages, found, ids };
      console.log(JSON.stringify({ ...facts, wasSealed: resumed.wasSealed }));
    `);
    expect(said).toEqual({
      idle: "idle",
      failed: [2, 1, 0, 0],
      isFreed: true,
      undefineds: [true, true],
      damages: [],
      found: [[join(folder, "out"), "successful"]],
      ids: Array.from({ length: 12 }, (_, id) => id),
      wasSealed: true,
    });
    expect(stderr).toMatch(/12\/12 rows, 3\/3 tasks/);
  });

  it("is stopped by another one, and its run is gone on with", async () => {
    const slow = `{ ...${job}, model: { engine: "fake", latencyMs: 300, capacity: 1 } }`;
    const running = program(`
      const { summary, error } = await sluice.run({ ...${slow}, output: "slow" });
      console.log(JSON.stringify([summary.sealed, error?.code]));
    `);
    const { said } = await program(`
      let end = "idle";
      for (let tries = 0; tries < 200 && end === "idle"; tries++) {
        await new Promise((go) => setTimeout(go, 50));
        end = await sluice.cancel("slow").catch(({ code }) => (code === "NOT_A_RUN" ? "idle" : code));
      }
      const { summary } = await sluice.resume("slow", { set: { "model.latencyMs": 0 } });
      console.log(JSON.stringify([end, summary.sealed, summary.rows.answered]));
    `);
    expect(said).toEqual(["ended", true, 12]);
    expect((await running).said).toEqual([false, "RUN_CANCELED"]);
  });

  it("is told in its own words what is wrong", async () => {
    const { said } = await program(`
      const codes = [];
      for (const verb of ["resume", "retry", "cancel", "clean", "abandonRetry", "verify"]) {
        await sluice[verb]("nowhere").catch(({ code }) => codes.push(code));
      }
      await sluice.retry("out", { set: { "output.field": "x" } }).catch((e) => codes.push(e.code));
      console.log(JSON.stringify(codes));
    `);
    expect(said).toEqual([...Array.from({ length: 6 }, () => "NOT_A_RUN"), "JOB_INVALID"]);
  });
});
