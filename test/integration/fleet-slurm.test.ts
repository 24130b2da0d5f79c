import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pause, stillRunning } from "../chaos/sluice-process.ts";
import { FleetCalls } from "../fleet-calls.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { missingCluster, SlurmCluster } from "../slurm-cluster.ts";

let cluster: SlurmCluster;
beforeAll(async () => {
  if (missingCluster === undefined) cluster = await SlurmCluster.start();
});
afterAll(() => cluster?.stop());

describe("a fleet on Slurm", () => {
  it("is the same fleet, whose workers the scheduler places", async (context) => {
    context.skip(missingCluster !== undefined, missingCluster);
    const folder = scratchFolder();
    const calls = new FleetCalls(folder, cluster.environment);
    writeFileSync(
      join(folder, "fleet.yaml"),
      "backend: slurm\nslurm: { timeLimit: 10, shared: true }\n",
    );
    const text =
      "echo $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT on $SLURMD_NODENAME; sleep 1";
    await calls.fleet(
      ...["create", "-c", "fleet.yaml", "--name", "far", "--count", "6", "--max-scale", "2"],
      ...["--command", "sh", "--command", "-c", "--arg", text, "--cpu", "1"],
    );
    expect(await calls.untilOver("far")).toMatchObject({ tasks: { successful: 6, total: 6 } });
    // The variables are those of the task, and not those of the array of workers.
    const logs = await calls.fleet("logs", "--name", "far");
    expect([...logs.matchAll(/^(\d) of 6 on n[12]$/gm)].map(([, task]) => task)).toEqual([
      ...["0", "1", "2", "3", "4", "5"],
    ]);
    const workers = await calls.fleet("worker", "list", "--name", "far");
    expect(workers).toMatch(/^far-0 .* slurm \d+_\d on n[12] /m);
    // A fleet is over with its last task, a little before its workers have left.
    await cluster.until(() => cluster.command("squeue", "-h").trim() === "");
  });

  it("goes on where the process that follows it is told to end", async (context) => {
    context.skip(missingCluster !== undefined, missingCluster);
    const folder = scratchFolder();
    const calls = new FleetCalls(folder, cluster.environment);
    writeFileSync(join(folder, "fleet.yaml"), "backend: slurm\nslurm: { shared: true }\n");
    const text = "echo >> begun; until [ -e go ]; do sleep 0.1; done";
    await calls.fleet(
      ...["create", "-c", "fleet.yaml", "--name", "left", "--count", "4", "--max-scale", "2"],
      ...["--command", "sh", "--command", "-c", "--arg", text, "--cpu", "1"],
    );
    const begun = () => existsSync(join(folder, "begun")) && readFileSync(join(folder, "begun"));
    while (String(begun()) !== "\n\n") await pause(100);
    const { runs } = await calls.get("left");
    const driver = Number(/by process (\d+)/.exec(runs[0]!.reason!)![1]);
    process.kill(driver, "SIGTERM");
    expect(await stillRunning([driver], 20_000)).toEqual([]);
    expect(await calls.get("left")).toMatchObject({ state: "running", tasks: { running: 2 } });
    writeFileSync(join(folder, "go"), "");
    expect(await calls.untilOver("left")).toMatchObject({
      ...{ state: "successful", tasks: { successful: 4, total: 4 } },
    });
    expect(await calls.call("verify", "fleets/left/runs/000001")).toMatchObject({ code: 0 });
    await cluster.until(() => cluster.command("squeue", "-h").trim() === "");
  });

  it("is canceled there, too", async (context) => {
    context.skip(missingCluster !== undefined, missingCluster);
    const folder = scratchFolder();
    const calls = new FleetCalls(folder, cluster.environment);
    writeFileSync(join(folder, "fleet.yaml"), "backend: slurm\nslurm: { shared: true }\n");
    await calls.fleet(
      ...["create", "-c", "fleet.yaml", "--name", "far", "--count", "8", "--max-scale", "2"],
      ...["--command", "sh", "--command", "-c", "--arg", "touch begun; sleep 60", "--cpu", "1"],
    );
    while (!existsSync(join(folder, "begun"))) await pause(100);
    await calls.fleet("cancel", "--name", "far", "--hard");
    expect((await calls.untilOver("far")).state).toBe("canceled");
    await cluster.until(() => cluster.command("squeue", "-h").trim() === "");
    expect(readFileSync(join(folder, "begun"), "utf8")).toBe("");
  });
});
