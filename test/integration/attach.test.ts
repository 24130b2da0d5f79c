import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { pause, runSluice, startSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";

/** A model that answers once a file lets it, so that no run is over before it is looked at. */
const gated = `
  import { existsSync } from "node:fs";
  export async function predict(batch) {
    while (!existsSync("go")) await new Promise((later) => setTimeout(later, 50));
    return batch.map(() => "said");
  }`;

/** A run on this machine that has begun, and a person who looks on. */
async function begun({ rows = 40, isGated = false } = {}) {
  const folder = scratchFolder();
  const lines = Array.from({ length: rows }, (_, row) => `{"text":"row ${row}"}\n`);
  writeFileSync(join(folder, "rows.jsonl"), lines.join(""));
  writeFileSync(join(folder, "gated.mjs"), gated);
  const model = isGated
    ? "model: { engine: predictor, module: ./gated.mjs }"
    : `model: { engine: fake, latencyMs: 200, capacity: 2 }
prompt: "Say {{ text }}"`;
  const job = `input: rows.jsonl
shard: { rows: 5 }
${model}
output: { path: out }
`;
  writeFileSync(join(folder, "job.yaml"), job);
  const running = startSluice(["run", "job.yaml", "--json"], folder);
  await running.workerStarted;
  return {
    running,
    go: () => writeFileSync(join(folder, "go"), ""),
    start: (...parameters: string[]) => startSluice(parameters, folder),
    call: (...parameters: string[]) => runSluice(parameters, folder),
  };
}

const summaryOf = ({ stdout }: { stdout: string }) =>
  JSON.parse(stdout.trimEnd().split("\n").at(-1)!);

describe("sluice attach", () => {
  it("ends like the run that another process carries out, with the same counts", async () => {
    const { running, call, start, go } = await begun({ isGated: true });
    const attaching = start("attach", "out");
    while (!attaching.stderr().includes("40 rows in 8 tasks") && !attaching.hasEnded()) {
      await pause(20);
    }
    go();
    const attached = await attaching.ended;
    const ended = await running.ended;
    expect(attached, attached.stderr).toMatchObject({ code: 0 });
    expect(attached.stderr).toContain("40/40 rows, 8/8 tasks");
    const { run_time_sec, tokens_per_sec, rows, ...own } = summaryOf(attached);
    const { run_time_sec: _, tokens_per_sec: __, rows: all, ...same } = summaryOf(ended);
    expect(own).toEqual(same);
    expect(rows).toMatchObject({ total: 40, answered: 40, failed: 0 });
    expect(all).toMatchObject({ total: 40, answered: 40, failed: 0 });
    // What is finished is told at once.
    expect(summaryOf(await call("attach", "out"))).toMatchObject({ sealed: true });
  });

  it("ends with a run that is canceled, and says so", async () => {
    const { running, call, start } = await begun({ rows: 400 });
    const attached = start("attach", "out", "--json");
    await attached.workerStarted;
    await call("cancel", "out");
    expect((await running.ended).code).toBe(75);
    const ended = await attached.ended;
    expect(ended).toMatchObject({ code: 75 });
    expect(summaryOf(ended)).toMatchObject({ status: "CANCELED", sealed: false });
    expect(summaryOf(ended).rows.answered).toBe(summaryOf(await running.ended).rows.answered);
  });

  it("leaves the run alone when it is told to stop", async () => {
    const { running, call, start, go } = await begun({ isGated: true });
    expect((await call("logs", "out")).stderr).toContain("logs of a run with backend: local");
    const attached = start("attach", "out", "--json");
    await attached.workerStarted;
    attached.kill("SIGTERM");
    const left = await attached.ended;
    expect(left.code).toBe(143);
    expect(JSON.parse(left.stdout)).toEqual({
      ...{ run_id: expect.any(String), output: expect.stringMatching(/\/out$/) },
    });
    go();
    expect((await running.ended).code).toBe(0);
  });
});
