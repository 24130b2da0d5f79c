import { readFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, it } from "vitest";
import { standInDriver, threeGpus } from "../engines/stand-in-driver.ts";
import { FleetCalls } from "../fleet-calls.ts";
import { scratchFolder } from "../run/whole-run.ts";

/**
 * Notes when it runs, and on which devices. The first ones wait for each other, which workers that
 * start at different speeds begin, and then for a further one, which must not begin.
 */
const program = (programs: number) => `
echo "begin $CUDA_VISIBLE_DEVICES" >> seen
until [ $(grep -c begin seen) -ge ${programs} ]; do sleep 0.05; done
sleep 0.5
echo "end $CUDA_VISIBLE_DEVICES" >> seen`;

/** Runs a fleet of which so many run at once; tells the most in all and on each device. */
async function mostAtOnce(
  programs: number,
  environment: Record<string, string>,
  ...flags: string[]
) {
  const folder = scratchFolder();
  const calls = new FleetCalls(folder, environment);
  const words = ["--command", "sh", "--command", "-c", "--arg", program(programs), "--wait"];
  const { code, stderr } = await calls.call("fleet", "create", "--name", "f", ...words, ...flags);
  expect(code, stderr).toBe(0);
  const most: Record<string, number> = {};
  const now: Record<string, number> = {};
  for (const line of readFileSync(join(folder, "seen"), "utf8").trim().split("\n")) {
    const [what, devices = ""] = line.split(" ");
    for (const key of ["all", devices]) {
      now[key] = (now[key] ?? 0) + (what === "begin" ? 1 : -1);
      most[key] = Math.max(most[key] ?? 0, now[key]);
    }
  }
  return { most, stderr };
}

describe("what programs of a fleet book", () => {
  it("decides how many run side by side, up to --max-scale", async () => {
    const share = 0.9 / 3;
    const cpu = ["--cpu", String(availableParallelism() * share)];
    expect((await mostAtOnce(3, {}, "--count", "7", ...cpu)).most.all).toBe(3);
    const scaled = await mostAtOnce(2, {}, "--count", "5", ...cpu, "--max-scale", "2");
    expect(scaled.most.all).toBe(2);
    const megabytes = Math.floor((totalmem() * share) / 1024 ** 2);
    const memory = ["--cpu", "0.01", "--memory", `${megabytes}M`];
    expect((await mostAtOnce(3, {}, "--count", "7", ...memory)).most.all).toBe(3);
  });

  it("runs one at a time where the machine has less, and says so", async () => {
    const { most, stderr } = await mostAtOnce(1, {}, "--count", "2", "--cpu", "4000");
    expect(most.all).toBe(1);
    expect(stderr).toContain("less than a program books (--cpu 4000)");
    const none = await mostAtOnce(1, {}, "--count", "1", "--gpu", "l40s:1");
    expect(none.stderr).toContain("--gpu: l40s:1: no GPU is seen on this machine");
  });

  it("gives each program GPUs of its own, or a part of one", async () => {
    const { CUDA_VISIBLE_DEVICES: _ = "", PATH = "" } = process.env;
    const environment = { PATH: `${standInDriver(threeGpus)}${delimiter}${PATH}` };
    const whole = await mostAtOnce(
      2,
      environment,
      ...["--count", "6", "--cpu", "0.01", "--gpu", "l40s:1"],
    );
    // The third GPU is of another kind.
    expect(whole.most).toEqual({ all: 2, 0: 1, 1: 1 });
    const parts = await mostAtOnce(
      4,
      environment,
      ...["--count", "8", "--cpu", "0.01", "--gpu", "l40s:0.5"],
    );
    expect(parts.most).toEqual({ all: 4, 0: 2, 1: 2 });
  });
});
