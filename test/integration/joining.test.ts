import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runSluice, startSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";

const rows = 200;
const rowsPerTask = 5;

/** A planned run of 40 tasks of half a second each; requests are counted in a file. */
async function planned() {
  const folder = scratchFolder();
  const lines = Array.from({ length: rows }, (_, row) => `{"id":${row},"text":"row ${row}"}\n`);
  writeFileSync(join(folder, "rows.jsonl"), lines.join(""));
  const job = `input: { path: rows.jsonl, id: id }
shard: { rows: ${rowsPerTask} }
model: { engine: fake, latencyMs: 100, capacity: 1, countFile: requests.txt }
prompt: "Say {{ text }}"
output: { path: out }
`;
  writeFileSync(join(folder, "job.yaml"), job);
  const call = (...parameters: string[]) => runSluice(parameters, folder);
  expect(await call("plan", "job.yaml", "--write")).toMatchObject({ code: 0 });
  return {
    call,
    start: (...parameters: string[]) => startSluice(["worker", "out", ...parameters], folder),
    requests: () => {
      const file = join(folder, "requests.txt");
      return existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n").length : 0;
    },
    counts: () => {
      const manifest = JSON.parse(readFileSync(join(folder, "out/_manifest.json"), "utf8"));
      return { rows: manifest.rows, requests: manifest.requests.answered };
    },
  };
}

const until = async (isTrue: () => boolean) => {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 50));
};

describe("workers that join a run", () => {
  it("take what a killed one and a stopped one leave, and end with the last row", async () => {
    const run = await planned();
    const shares = ["0/4", "1/4", "2/4", "3/4"].map((share) => run.start("--share", share));
    const [killed, hung, ...others] = shares;
    // Another one comes later, and knows of no share.
    await until(() => run.requests() > 20);
    const late = run.start();
    killed!.killGroup("SIGKILL");
    hung!.killGroup("SIGSTOP");
    const ends = await Promise.all([...others, late].map(({ ended }) => ended));
    hung!.killGroup("SIGKILL");
    for (const { code, stderr } of ends) expect(code, stderr).toBe(0);
    expect((await run.call("verify", "out")).stdout).toContain("every row accounted for");
    expect(run.counts()).toMatchObject({
      rows: { total: rows, answered: rows, failed: 0 },
      requests: rows,
    });
    // A kill costs the row in flight; a stopped process may have had one as well. Two workers that
    // look at the claims in the same moment may both begin a task.
    expect(run.requests()).toBeGreaterThanOrEqual(rows);
    expect(run.requests()).toBeLessThanOrEqual(rows + 2 + rowsPerTask);
  });

  it("leave other shares alone with --no-help, and are helped all the same", async () => {
    const run = await planned();
    const first = run.start("--share", "0/2", "--no-help");
    const second = run.start("--share", "1/2");
    expect((await first.ended).code).toBe(0);
    expect((await second.ended).code).toBe(0);
    expect(run.requests()).toBe(rows);
    expect((await run.call("verify", "out")).stdout).toContain("every row accounted for");
    const refused = await run.call("worker", "out", "--no-help");
    expect(refused).toMatchObject({ code: 64 });
    expect(refused.stderr).toContain("--no-help needs --share");
  });
});
