import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { sluiceProgram } from "../sluice-program.ts";
import { engineContext, whyOpenvinoIsMissing } from "./llama-files.ts";

const missing = await whyOpenvinoIsMissing();

describe("sluice engine measure", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  it("says which engine is faster, and the line that switches does", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-measure-"));
    // What was measured must not reach other tests.
    for (const name of ["engines", "models"]) {
      await symlink(join(engineContext.homeDirectory, name), join(folder, name));
    }
    const sluice = (...args: string[]) =>
      spawnSync(process.execPath, [sluiceProgram, ...args], {
        cwd: folder,
        encoding: "utf8",
        env: { ...process.env, SLUICE_HOME: folder },
      });
    expect(sluice("doctor").stdout).toContain("sluice engine measure finds the fastest engine");
    const measured = sluice("engine", "measure", "--requests", "1");
    expect(measured.status, measured.stderr).toBe(0);
    expect(measured.stdout).not.toContain("was not measured");
    expect(sluice("doctor").stdout).toMatch(/engine speed +ok +llama \d+ tokens\/s, openvino \d+/);
    await writeFile(join(folder, "rows.jsonl"), '{"text":"one"}\n');
    const job = [
      "--input",
      "rows.jsonl",
      "--prompt",
      "Say {{ text }}",
      "--generation.maxNewTokens",
    ];
    const plan = sluice("plan", ...job, "4", "--model", "smollm2-135m-instruct");
    const advised = /times as fast as llama on this machine: (--model \S+)/;
    expect(advised.exec(plan.stdout)?.[1]).toBe(advised.exec(measured.stdout)?.[1]);
    // A machine on which llama is as fast gets no advice; there the same line is tried.
    const line = advised.exec(plan.stdout)?.[1] ?? "--model openvino:smollm2-135m-instruct";
    const run = sluice("run", ...job, "4", ...line.split(" "), "--output", "out", "--json");
    expect(run.status, run.stderr).toBe(0);
    expect(readFileSync(join(folder, "out/_sluice/plan.json"), "utf8")).toContain(
      `"engine":"${line.includes("openvino:") ? "openvino" : "llama"}"`,
    );
  });
});
