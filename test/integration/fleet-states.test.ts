import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { pause, type SluiceProcess } from "../chaos/sluice-process.ts";
import { FleetCalls } from "../fleet-calls.ts";
import { scratchFolder } from "../run/whole-run.ts";

const shell = (text: string) => ["--command", "sh", "--command", "-c", "--arg", text];

describe("a fleet that was interrupted", () => {
  it("is what its tasks are where only the seal is missing, canceled or not", async () => {
    const folder = scratchFolder();
    const calls = new FleetCalls(folder);
    for (const [name, text, state, reason] of [
      ["well", "true", "successful", null],
      [
        "badly",
        `test -e ${folder}/mended || exit $SLUICE_TASK_INDEX`,
        "failed",
        "1 of 2 tasks failed",
      ],
    ] as const) {
      const create = ["fleet", "create", "--name", name, "--count", "2", "--retries", "0"];
      await calls.call(...create, "--cpu", "0.5", "--wait", ...shell(text));
      const before = await calls.tasks(name);
      // As a kill between the last commit and the seal leaves it.
      const run = join(folder, "fleets", name, "runs/000001");
      for (const path of ["_SUCCESS", "_manifest.json", "_sluice/seals", "_sluice/manifests"]) {
        rmSync(join(run, path), { recursive: true });
      }
      expect(await calls.get(name)).toMatchObject({ state, reason });
      await calls.fleet("cancel", "--name", name, "--hard");
      expect(await calls.get(name)).toMatchObject({
        ...{ state, reason, tasks: { canceled: 0, total: 2 } },
        runs: [
          {
            state: "canceled",
            reason: "by sluice cancel; every task is done, and only the seal is missing",
          },
        ],
      });
      const told = await calls.fleet("get", "--name", name);
      expect(told).toMatch(new RegExp(`^Status: +${state}$`, "m"));
      expect(told).toMatch(new RegExp(`^Next: +sluice fleet resume --name ${name}$`, "m"));
      await calls.call("fleet", "resume", "--name", name, "--quiet");
      expect(await calls.get(name)).toMatchObject({ state, reason, runs: [{ state }] });
      expect(await calls.tasks(name)).toEqual(before);
      expect(await calls.call("verify", run)).toMatchObject({ code: 0 });
    }
    const again = await calls.call("fleet", "resume", "--name", "well");
    expect(again.stderr).toBe("batch 1 of fleet well is finished: there is nothing to do\n");
    const failed = await calls.call("fleet", "resume", "--name", "badly");
    const told = "batch 1 of fleet badly is finished: 1 of 2 tasks failed; ";
    const [, advised] = /^.*; (sluice .*) runs them again\n$/.exec(failed.stderr) ?? [];
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining(told)]);
    writeFileSync(join(folder, "mended"), "");
    expect(await calls.call(...advised!.split(" ").slice(1))).toMatchObject({ code: 0 });
    expect(await calls.tasks("badly")).toMatchObject([1, 2].map(() => ({ state: "successful" })));
  });

  it("counts a task whose results have their names, canceled or not", async () => {
    const folder = scratchFolder();
    const calls = new FleetCalls(folder);
    mkdirSync(join(folder, "store"));
    const text = "echo x >> tries; echo y > $SLUICE_MOUNT_OUT/$SLUICE_TASK_INDEX.txt";
    await calls.fleet(
      ...["create", "--name", "named", "--count", "2", "--cpu", "0.5", "--wait"],
      ...["--mount-data-store", `/out=${folder}/store`, ...shell(text)],
    );
    // As a kill between the record of a task's results and its commit leaves it.
    const run = join(folder, "fleets/named/runs/000001");
    for (const name of readdirSync(join(run, "_sluice/commits"))) {
      if (name.startsWith("0.")) rmSync(join(run, "_sluice/commits", name));
    }
    for (const path of ["part-00000.jsonl", "_SUCCESS", "_manifest.json", "_sluice/seals"]) {
      rmSync(join(run, path), { recursive: true });
    }
    await calls.fleet("cancel", "--name", "named", "--hard");
    expect(await calls.get("named")).toMatchObject({
      ...{ state: "successful", tasks: { successful: 2, canceled: 0, total: 2 } },
    });
    expect(await calls.tasks("named")).toMatchObject([
      { state: "successful", resultCode: 0 },
      { state: "successful", resultCode: 0 },
    ]);
    await calls.fleet("resume", "--name", "named", "--quiet");
    expect(readFileSync(join(folder, "tries"), "utf8")).toBe("x\nx\n");
    expect(await calls.call("verify", run)).toMatchObject({ code: 0 });
  });

  it("waits for the planning of a batch, and can be canceled and deleted meanwhile", async () => {
    const folder = scratchFolder();
    const calls = new FleetCalls(folder);
    await calls.call("fleet", "create", "--name", "f", "--count", "1", "--wait", ...shell("true"));
    const batches = join(folder, "fleets/f/batches");
    // As a call leaves it that was killed before its run was planned.
    const first = JSON.parse(readFileSync(join(batches, "000001.json"), "utf8"));
    writeFileSync(join(batches, "000002.json"), JSON.stringify({ ...first, number: 2 }));
    expect(await calls.get("f")).toMatchObject({
      ...{ state: "pending", reason: "batch 2 is not planned" },
      tasks: { successful: 1, pending: 1, total: 2 },
    });
    expect(await calls.fleet("get", "--name", "f")).toMatch(/^Reason: +batch 2 is not planned$/m);
    const resumed = await calls.call("fleet", "resume", "--name", "f", "--quiet");
    expect(resumed.code).toBe(64);
    expect(resumed.stderr).toContain("batch 2 of fleet f is not planned");
    expect(resumed.stderr).toContain("sluice fleet delete --name f, and create it again");
    // Its process, if there will be one, must not begin.
    for (const flags of [[], ["--hard"]]) {
      expect(await calls.fleet("cancel", "--name", "f", ...flags)).toContain("OK");
    }
    expect(readdirSync(join(folder, "fleets/f/runs/000002/_sluice/cancel"))).toHaveLength(2);
    await calls.fleet("delete", "--name", "f");
    expect(existsSync(join(folder, "fleets/f"))).toBe(false);
    await calls.fleet("create", "--name", "f", "--count", "1", "--wait", ...shell("true"));
    expect(await calls.get("f")).toMatchObject({ state: "successful", tasks: { total: 1 } });
  });
});

describe("a fleet that a person resumes", () => {
  it("begins no further batch once it is canceled, or its process is told to end", async () => {
    const folder = scratchFolder();
    const calls = new FleetCalls(folder);
    const begun = (batch: string) => existsSync(join(folder, batch));
    const text = "touch $SLUICE_TASK_INDEX; sleep 600";
    await calls.fleet("create", "--name", "two", "--count", "1", ...shell(text));
    await calls.fleet("add", "--name", "two", "--count", "1");
    while (!begun("0")) await pause(50);
    await calls.fleet("cancel", "--name", "two", "--hard");
    await calls.untilOver("two");
    const cancel = async () => void (await calls.fleet("cancel", "--name", "two", "--hard"));
    for (const stop of [cancel, (resumed: SluiceProcess) => resumed.kill("SIGINT")]) {
      rmSync(join(folder, "0"));
      const resumed = calls.start("fleet", "resume", "--name", "two", "--quiet");
      while (!begun("0")) await pause(50);
      await stop(resumed);
      const { code, stderr } = await resumed.ended;
      expect([75, 130], stderr).toContain(code);
      expect(begun("1")).toBe(false);
    }
  });
});

describe("the place of a fleet", () => {
  it("holds nothing else, and is deleted without what is not of the fleet", async () => {
    const folder = scratchFolder();
    const calls = new FleetCalls(folder);
    mkdirSync(join(folder, "work"));
    writeFileSync(join(folder, "work/thesis.txt"), "years");
    const create = ["fleet", "create", "--fleets", ".", "--count", "1", "--command", "true"];
    const { code, stderr } = await calls.call(...create, "--name", "work");
    expect({ code, stderr }).toEqual({ code: 64, stderr: expect.stringContaining("thesis.txt") });
    expect(readdirSync(join(folder, "work"))).toEqual(["thesis.txt"]);
    expect(existsSync(join(folder, "_fleets"))).toBe(false);
    await calls.call(...create, "--name", "own", "--wait");
    writeFileSync(join(folder, "own/notes.txt"), "kept");
    await calls.fleet("delete", "--fleets", ".", "--name", "own");
    expect(readdirSync(join(folder, "own"))).toEqual(["notes.txt"]);
  });
});
