import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isRunning, pause } from "../chaos/sluice-process.ts";
import { FleetCalls } from "../fleet-calls.ts";
import { scratchFolder } from "../run/whole-run.ts";

const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";

function someFleet(lines: readonly object[] = []) {
  const folder = scratchFolder();
  const text = lines.map((line) => JSON.stringify(line)).join("\n");
  writeFileSync(join(folder, "commands.jsonl"), `${text}\n`);
  return { folder, calls: new FleetCalls(folder) };
}

const shell = (text: string, more: object = {}) => ({ cmds: ["sh", "-c", text], ...more });

/** What a program does until the test lets it end. */
const untilGo = "until [ -e go ]; do sleep 0.1; done";

/** Waits until the coordinator, if any, has obeyed a cancel: it looks after each heartbeat. */
async function untilObeyed(folder: string, name: string): Promise<void> {
  const run = join(folder, "fleets", name, "runs/000001");
  const path = join(run, "_sluice/coordinators/000001.heartbeat");
  const look = () =>
    existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : { beat: 0, ended: true };
  const { beat: first } = look();
  for (let now = look(); !now.ended && now.beat < first + 2; now = look()) await pause(50);
}

describe("sluice fleet", () => {
  it("goes through the tutorial, with its words and tables", async () => {
    const { folder, calls } = someFleet();
    writeFileSync(join(folder, "task.sh"), untilGo);
    const created = await calls.fleet(
      ...["create", "--name", "fleet-b4bd2a33-1", "--command=sh", "--arg", "task.sh"],
      ...["--tasks", "3"],
      ...["--cpu", "0.25", "--memory", "64M", "--max-scale", "2"],
    );
    const [, id] = new RegExp(`ID '(${uuid})'`).exec(created) ?? [];
    expect(created).toBe(
      `Successfully created fleet with name 'fleet-b4bd2a33-1' and ID '${id}'\n` +
        `Run 'sluice fleet get --id ${id}' to check the fleet status.\n` +
        `Run 'sluice fleet worker list --fleet-id ${id}' to retrieve a list of provisioned ` +
        `workers.\n` +
        `Run 'sluice fleet task list --fleet-id ${id}' to retrieve a list of tasks.\nOK\n`,
    );
    const got = await calls.fleet("get", "--id", id!);
    expect(got).toMatch(
      /^Getting fleet 'fleet-b4bd2a33-1'\.\.\.\nOK\n\nName: +fleet-b4bd2a33-1\nID: /,
    );
    for (const line of [
      /^Status: +(pending|running)$/m,
      /^Created: +\d+s$/m,
      /^Tasks status:\n {2}Failed: +0\n {2}Canceled: +0\n {2}Successful: +0\n {2}Running: +\d\n/m,
      /^ {2}Pending: +\d\n {2}Total: +3\n/m,
      /^Code:\n {2}Command 0: +sh\n {2}Argument 0: +task\.sh\n/m,
      /^Tasks specification:\n/m,
      /^Resources and scaling:\n {2}CPU per instance: +0\.25\n {2}Memory per instance: +64M\n/m,
      /^ {2}Max number of instances: +2\n {2}Max execution time:\n {2}Max retries per task: +3\n/m,
    ]) {
      expect(got).toMatch(line);
    }
    // Two run side by side, and one waits.
    while ((await calls.get("fleet-b4bd2a33-1")).tasks.running < 2) await pause(50);
    const both = await calls.fleet("task", "list", "--fleet-id", id!);
    expect(both).toMatch(
      /^Listing serverless fleet tasks\.{3}\nOK\n\nIndex +ID +Status +Result code +Worker name\n/,
    );
    const running = both.split("\n").filter((line) => line.includes(" running "));
    expect(running).toHaveLength(2);
    for (const line of running) {
      expect(line).toMatch(
        new RegExp(`^000-00000-\\d  ${uuid}  running +- +fleet-b4bd2a33-1-[01]$`),
      );
    }
    const workers = await calls.fleet("worker", "list", "--fleet-id", id!);
    expect(workers).toMatch(
      /^Listing serverless fleet workers\.{3}\nOK\n\nName +ID +Status +Profile +IP +Zone +Version\n/,
    );
    expect(workers).toMatch(/^fleet-b4bd2a33-1-0 +\w+ +running +0\.25x64M +\S+ +local +v\d/m);
    writeFileSync(join(folder, "go"), "");
    expect(await calls.untilOver("fleet-b4bd2a33-1")).toMatchObject({
      state: "successful",
      tasks: { successful: 3, total: 3 },
    });
    const table = await calls.fleet("task", "list", "--fleet-id", id!, "--status", "successful");
    expect(table.match(/successful +0 +fleet-b4bd2a33-1-[01]$/gm)).toHaveLength(3);
    const listed = await calls.json("task", "list", "--fleet-id", id!);
    expect(listed).toEqual(await calls.tasks("fleet-b4bd2a33-1"));
    const [told] = await calls.json<object>("get", "--fleet-name", "fleet-b4bd2a33-1");
    const { ageSeconds: _, ...facts } = await calls.get("fleet-b4bd2a33-1");
    expect(told).toMatchObject(facts);
    // The ids are those of the first look.
    for (const line of running) expect(table).toContain(new RegExp(uuid).exec(line)![0]);
    expect(await calls.fleet("list")).toMatch(
      new RegExp(`^fleet-b4bd2a33-1  ${id}  successful +3 +3 +0 +\\d+s$`, "m"),
    );
  });

  it("tells programs their tasks, in all words that they know", async () => {
    const names = ["SLUICE_TASK_INDEX", "SLUICE_TASK_ID", "SLUICE_TASK_COUNT", "CE_TASK_INDEX"];
    names.push(
      "CE_TASK_ID",
      "CE_FLEET_NAME",
      "JOB_INDEX",
      "JOB_ARRAY_SIZE",
      "JOB_COMPLETION_INDEX",
    );
    names.push("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "OWN", "ALL");
    const print = shell(names.map((name) => `echo ${name}=$${name}`).join(";"));
    const { calls } = someFleet([
      { ...print, idx: "foo", env: { OWN: "mine" } },
      { ...print, idx: 7 },
      { args: ["an argument"] },
    ]);
    await calls.fleet(
      ...["create", "--name", "told", "--tasks-from-local-file", "commands.jsonl", "--wait"],
      ...["--command", "echo", "--arg", "-n", "--env", "ALL=every task"],
    );
    const tasks = await calls.tasks("told");
    expect(tasks.map(({ index }) => index)).toEqual(["foo", "7", "2"]);
    const variables = async (index: string) =>
      Object.fromEntries(
        (await calls.fleet("logs", "--name", "told", "--index", index))
          .trimEnd()
          .split("\n")
          .map((line) => line.split("=") as [string, string]),
      );
    const all = { SLUICE_TASK_COUNT: "3", JOB_ARRAY_SIZE: "3", CE_FLEET_NAME: "told" };
    const range = { SLURM_ARRAY_TASK_MIN: "0", SLURM_ARRAY_TASK_MAX: "7", ALL: "every task" };
    const [id, second] = tasks.map((task) => task.id);
    expect(await variables("foo")).toEqual({
      ...{ ...all, ...range, OWN: "mine", SLUICE_TASK_INDEX: "foo", CE_TASK_INDEX: "foo" },
      ...{ SLUICE_TASK_ID: id, CE_TASK_ID: id },
      // Its place, since its index is not a number.
      ...{ JOB_INDEX: "0", JOB_COMPLETION_INDEX: "0", SLURM_ARRAY_TASK_ID: "0" },
    });
    expect(await variables("000-00000-7")).toMatchObject({
      ...{ OWN: "", SLUICE_TASK_INDEX: "7", SLUICE_TASK_ID: second, SLURM_ARRAY_TASK_ID: "7" },
    });
    expect(await calls.fleet("logs", "--name", "told", "--index", "2")).toBe("an argument\n");
  });

  it("refuses bad lines by file, line and field, and leaves nothing behind", async () => {
    const lines: [line: string, said: string][] = [
      ['{"cmds": "python"}', "must be a list of texts (commands.jsonl:2, field cmds)"],
      ['{"args": [1], "cmds": ["a"]}', "must be a list of texts (commands.jsonl:2, field args)"],
      ['{"cmds": ["a"], "env": {"A": 1}}', "(commands.jsonl:2, field env)"],
      ['{"cmds": ["a"], "idx": "a b"}', "(commands.jsonl:2, field idx)"],
      ['{"cmds": ["a"], "idx": 0}', "another task has the index 0 (commands.jsonl:2, field idx)"],
      ['{"cmd": ["a"]}', "did you mean cmds? (commands.jsonl:2, field cmd)"],
      ['{"cmds": ["a"]', "(commands.jsonl:2)"],
      ["[]", "a line is an object"],
      [
        '{"cmds": ["a"], "env": {"API_KEY": "abc12345"}}',
        "looks like a secret, and lines are stored: pass it by --env NAME, which all tasks get " +
          "(commands.jsonl:2, field env.API_KEY)",
      ],
      ['{"env": {"A": "1"}}', "task 1 has no command"],
    ];
    const { folder, calls } = someFleet();
    const create = ["fleet", "create", "--name", "bad"];
    const fromFile = [...create, "--tasks-from-local-file", "commands.jsonl"];
    for (const [line, said] of lines) {
      writeFileSync(join(folder, "commands.jsonl"), `{"cmds": ["true"]}\n${line}\n`);
      const { code, stderr } = await calls.callHere(...fromFile);
      expect({ code, stderr }).toEqual({ code: 65, stderr: expect.stringContaining(said) });
    }
    expect(await calls.json("list")).toEqual([]);
    expect(existsSync(join(folder, "fleets"))).toBe(false);
    const others: [flags: string[], said: string][] = [
      [["--count", "1", "--indexes", "2"], "count and indexes are given"],
      [[], "the fleet has no tasks"],
      [["--count", "1", "--mount-data-store", "/in=nowhere:/x"], 'there is no store "nowhere"'],
      [["--count", "1", "--mount-data-store", "in=x"], "is not /PATH=STORE:/PREFIX"],
      [["--count", "x"], '--count must be a number, not "x"'],
      [["--count", "1", "--gpu", "l40s:1.5"], "--gpu l40s:1.5: a whole number, or a part below 1"],
      [["--count", "1", "--memory", "much"], "--memory: must be a number with K, M, G or T"],
      [["--count", "1", "--timeout", "soon"], "--timeout soon is not a length of time"],
      [["--count", "1", "--max-scales", "2"], "did you mean --max-scale?"],
      [["--count", "1"], "task 0 has no command"],
      [["--count", "1", "--tasks", "1"], "--count and --tasks are the same"],
      [["--count", "1", "--worker-profile", "cx2-2x4"], "no effect with backend local"],
      [["--count", "1", "--registry-secret", "pull"], "no effect without --image"],
      [["--count", "1", "--backend", "kubernetes"], "backend kubernetes needs --image"],
    ];
    for (const [flags, said] of others) {
      const { code, stderr } = await calls.callHere(...create, ...flags);
      expect(code, said).toBeGreaterThan(0);
      expect(stderr).toContain(said);
      expect(existsSync(join(folder, "fleets")), said).toBe(false);
    }
    // The name is free for the mended command; then it is taken.
    await calls.fleet("create", "--name", "bad", "--count", "1", "--command", "true", "--wait");
    const again = await calls.callHere(...create, "--count", "1", "--command", "true");
    expect(again).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("there is a fleet bad"),
    });
    const one = ["--count", "1", "--command", "true"];
    const there = await calls.callHere(...create, "--fleets", "./fleets", ...one);
    expect(there.stderr).toContain("hint: sluice fleet add --name bad --fleets fleets gives it");
  });

  it("tries failed programs again, ends late ones, and knows the causes", async () => {
    const { folder, calls } = someFleet([
      shell("echo x >> tries-0; [ $(wc -l < tries-0) -eq 3 ]"),
      shell("echo x >> tries-1; echo no such recipe >&2; exit 3"),
      shell("kill -s SEGV $$"),
      { cmds: ["no-such-program"] },
    ]);
    const create = (...words: string[]) =>
      calls.call(...["fleet", "create", ...words, "--retries", "2", "--cpu", "0.2", "--wait"]);
    const stubborn = "trap '' TERM; echo $$ >> pids; sleep 600 & echo $! >> pids; sleep 600";
    // None but the stubborn program has a limit of time, which a slow machine could exceed.
    const [tried, late] = await Promise.all([
      create("--name", "tried", "--tasks-from-local-file", "commands.jsonl"),
      create(
        ...["--name", "late", "--count", "1", "--timeout", "2s"],
        ...["--command", "sh", "--command", "-c", "--arg", stubborn],
      ),
    ]);
    expect([tried.code, late.code]).toEqual([1, 1]);
    const [hanging] = await calls.tasks("late");
    expect(hanging).toMatchObject({
      ...{ state: "failed", resultCode: 137 },
      cause: expect.stringContaining("took too long and was ended with its children: after 2 s"),
    });
    const tasks = await calls.tasks("tried");
    expect(tasks.map(({ state, resultCode }) => [state, resultCode])).toEqual([
      ["successful", 0],
      ["failed", 3],
      ["failed", 139],
      ["failed", 127],
    ]);
    expect(tasks[1]!.cause).toContain("exit code 3; its last line: no such recipe");
    const triesOf = (name: string) => readFileSync(join(folder, name), "utf8").trim().split("\n");
    expect(triesOf("tries-0")).toHaveLength(3);
    // Two retries are three tries.
    expect(triesOf("tries-1")).toHaveLength(3);
    const pids = triesOf("pids").map(Number);
    expect(pids).toHaveLength(6);
    expect(pids.filter(isRunning)).toEqual([]);
    const everyTry = await calls.fleet("logs", "--name", "tried", "--index", "1", "--all-tries");
    expect(everyTry).toBe(
      [1, 2, 3].map((number) => `==> task 1, try ${number} <==\nno such recipe\n`).join(""),
    );
    // The run is one like any other.
    const run = "fleets/tried/runs/000001";
    expect(await calls.call("verify", run)).toMatchObject({ code: 0 });
    expect(JSON.parse((await calls.call("status", run, "--json")).stdout)).toMatchObject({
      ...{ rows: { total: 4, answered: 1, failed: 3 }, errors: { PROGRAM_FAILED: { count: 3 } } },
    });
    const ended = await calls.call("status", "fleets/late/runs/000001", "--json");
    expect(JSON.parse(ended.stdout)).toMatchObject({ errors: { PROGRAM_TIMED_OUT: { count: 1 } } });
    // What was broken is mended, and runs again.
    writeFileSync(join(folder, "no-such-program"), "#!/bin/sh\nexit 0\n", { mode: 0o755 });
    const retried = new FleetCalls(folder, { PATH: `${folder}:${process.env.PATH}` });
    await retried.call("retry", run, "--quiet");
    expect((await calls.tasks("tried")).map(({ state }) => state)).toEqual([
      ...["successful", "failed", "failed", "successful"],
    ]);
  });

  it("gets more tasks, which go on with the indexes when the others are done", async () => {
    const { folder, calls } = someFleet([
      shell("echo $SLUICE_TASK_INDEX $SLUICE_TASK_COUNT >> seen"),
    ]);
    await calls.fleet(
      ...["create", "--name", "grown", "--indexes", "2-3,9", "--cpu", "0.5"],
      ...["--command", "sh", "--command", "-c", "--arg", "sleep 1; echo first >> seen"],
    );
    const added = await calls.fleet(
      ...["add", "--name", "grown", "--tasks-from-local-file", "commands.jsonl"],
    );
    expect(added).toContain("Successfully added 1 task to fleet 'grown'");
    await calls.fleet("task", "add", "--name", "grown", "--count", "2");
    expect(await calls.untilOver("grown")).toMatchObject({
      state: "successful",
      tasks: { successful: 6, total: 6 },
    });
    const indexes = (await calls.tasks("grown")).map(({ index }) => index);
    expect(indexes).toEqual(["2", "3", "9", "10", "11", "12"]);
    const seen = readFileSync(join(folder, "seen"), "utf8").trim().split("\n");
    expect(seen).toEqual(["first", "first", "first", "10 4", "first", "first"]);
    const taken = await calls.callHere("fleet", "add", "--name", "grown", "--indexes", "8-10");
    expect(taken.stderr).toContain("another task has the index 9");
  });

  it("lets programs end when it is canceled, and ends them when that is meant hard", async () => {
    const { folder, calls } = someFleet();
    const create = (name: string, seconds: number) =>
      calls.fleet(
        ...["create", "--name", name, "--count", "40", "--cpu", "0.5", "--max-scale", "2"],
        ...["--command", "sh", "--command", "-c", "--arg"],
        `echo x >> ${name}-started; sleep ${seconds}; echo x >> ${name}-done`,
      );
    const linesOf = (name: string) => {
      const path = join(folder, name);
      return existsSync(path) ? readFileSync(path, "utf8").length / 2 : 0;
    };
    for (const [name, seconds, flags] of [
      ["soft", 3, []],
      ["hard", 600, ["--hard"]],
    ] as const) {
      await create(name, seconds);
      while (linesOf(`${name}-started`) < 2) await pause(50);
      const said = await calls.fleet("cancel", "--name", name, ...flags);
      expect(said).toBe(`Canceling fleet '${name}'...\nOK\n`);
      expect((await calls.untilOver(name)).state).toBe("canceled");
      const done = linesOf(`${name}-done`);
      expect(done).toBe(name === "soft" ? linesOf("soft-started") : 0);
      const tasks = await calls.tasks(name);
      const count = (state: string) => tasks.filter((task) => task.state === state).length;
      expect([count("successful"), count("canceled")]).toEqual([done, 40 - done]);
    }
    const twice = await calls.callHere("fleet", "delete", "--name", "soft");
    expect(twice).toMatchObject({ code: 0, stdout: "Deleting fleet 'soft'...\nOK\n" });
    expect(existsSync(join(folder, "fleets/soft"))).toBe(false);
    expect((await calls.json<{ name: string }>("list")).map(({ name }) => name)).toEqual(["hard"]);
  });

  it("does not begin when it is canceled at once, nor a batch that waits", async () => {
    const { folder, calls } = someFleet();
    const create = ["--cpu", "2", "--command", "sh", "--command", "-c", "--arg"];
    const hasty = ["--name", "hasty", "--count", "40", "--max-scale", "1"];
    await calls.fleet("create", ...hasty, ...create, "until [ -e hasty-go ]; do sleep 0.1; done");
    await calls.fleet("cancel", "--name", "hasty");
    // Its process may just start.
    await pause(4000);
    await untilObeyed(folder, "hasty");
    writeFileSync(join(folder, "hasty-go"), "");
    const { tasks } = await calls.untilOver("hasty");
    expect(tasks.canceled).toBeGreaterThan(38);
    const program = `echo x >> $CE_FLEET_NAME; ${untilGo}`;
    await calls.fleet("create", "--name", "early", "--count", "1", ...create, program);
    const early = await calls.callHere("fleet", "delete", "--name", "early");
    expect(early.stderr).toMatch(/fleet early is (pending|running)/);
    await calls.fleet("create", "--name", "queue", "--count", "1", ...create, program);
    while (!existsSync(join(folder, "queue"))) await pause(50);
    await calls.fleet("add", "--name", "queue", "--count", "2");
    await calls.fleet("cancel", "--name", "queue");
    writeFileSync(join(folder, "go"), "");
    expect(await calls.untilOver("queue")).toMatchObject({
      ...{ state: "canceled", tasks: { successful: 1, canceled: 2, total: 3 } },
    });
    // Whoever wants it may still go on.
    expect(await calls.call("fleet", "resume", "--name", "queue")).toMatchObject({ code: 0 });
    expect(readFileSync(join(folder, "queue"), "utf8")).toBe("x\nx\nx\n");
  });

  it("ends programs that were let go on, once that is asked for", async () => {
    const { folder, calls } = someFleet();
    await calls.fleet(
      ...["create", "--name", "long", "--count", "2", "--cpu", "0.5"],
      ...["--command", "sh", "--command", "-c", "--arg", "touch begun; sleep 600"],
    );
    while (!existsSync(join(folder, "begun"))) await pause(50);
    await calls.fleet("cancel", "--name", "long");
    await untilObeyed(folder, "long");
    expect((await calls.get("long")).tasks.running).toBeGreaterThan(0);
    await calls.fleet("cancel", "--name", "long", "--hard");
    expect(await calls.untilOver("long")).toMatchObject({
      ...{ state: "canceled", tasks: { canceled: 2, total: 2 } },
    });
  });

  it("replaces workers that are deleted, once their programs have ended or at once", async () => {
    const { folder, calls } = someFleet();
    const begun = () => {
      const path = join(folder, "begun");
      const text = existsSync(path) ? readFileSync(path, "utf8") : "";
      return text.split("\n").slice(0, -1);
    };
    await calls.fleet(
      ...["create", "--name", "kept", "--count", "5", "--max-scale", "2", "--cpu", "1"],
      ...["--command", "sh", "--command", "-c", "--arg"],
      "echo $SLUICE_TASK_INDEX >> begun; until [ -e go ]; do sleep 0.1; done",
    );
    while (begun().length < 2) await pause(50);
    const remove = ["fleet", "worker", "delete", "--name", "kept"];
    expect(await calls.call(...remove, "--worker-name", "kept-0")).toMatchObject({
      ...{ code: 0, stdout: "Deleting worker 'kept-0'...\nOK\n" },
    });
    // Its program ends at once, and its task runs again; that of the other one goes on.
    await calls.call(...remove, "--worker-name", "kept-1", "--hard", "--wait");
    while (begun().length < 3) await pause(50);
    const workerOf = async (index: string) =>
      (await calls.tasks("kept")).find((task) => task.index === index)!.worker;
    expect(await workerOf(begun()[2]!)).toBe("kept-2");
    const states = (await calls.workers("kept")).map(({ name, state }) => [name, state]);
    expect(states).toEqual([
      ["kept-0", "running"],
      ["kept-1", "successful"],
      ["kept-2", "running"],
    ]);
    for (const [words, said] of [
      [[], "no worker is named"],
      [["--worker-name", "kept-3"], "must be one of kept-0, kept-2"],
      [["--worker-name", "kept-1"], "worker kept-1 has ended (successful)"],
    ] as const) {
      expect(await calls.callHere(...remove, ...words)).toMatchObject({
        ...{ code: 64, stderr: expect.stringContaining(said) },
      });
    }
    writeFileSync(join(folder, "go"), "");
    expect(await calls.untilOver("kept")).toMatchObject({ tasks: { successful: 5, total: 5 } });
    // None ran twice but the one that was ended, and the deleted worker got no further one.
    expect(begun()).toHaveLength(6);
    const workers = (await calls.tasks("kept")).map(({ worker }) => worker);
    expect(workers.filter((worker) => worker === "kept-0")).toHaveLength(1);
    expect(workers).not.toContain("kept-1");
  });

  it("lists the profiles of machines where a backend has some", async () => {
    const { calls } = someFleet();
    const profiles = await calls.fleet("worker", "profiles");
    expect(profiles).toMatch(
      /^Listing serverless fleet worker profiles\.{3}\nOK\n\nName +CPU +Memory +GPU\n/,
    );
    expect(profiles).toMatch(/^cx2-2x4 +2 +4G +-$/m);
    expect(profiles).toMatch(/^gx3-24x120x1l40s +24 +120G +l40s:1$/m);
    for (const [backend, said] of [
      ["slurm", /backend slurm has no worker profiles[\s\S]*sinfo/],
      ["local", /backend local has no worker profiles[\s\S]*sluice doctor/],
      ["slum", /did you mean slurm\?/],
    ] as const) {
      const words = ["fleet", "worker", "profiles", "--backend", backend];
      const { code, stderr } = await calls.call(...words);
      expect({ code, stderr }).toEqual({ code: 64, stderr: expect.stringMatching(said) });
    }
  });

  it("shows a fleet whose process died as it is, and resumes it", async () => {
    const { folder, calls } = someFleet();
    await calls.fleet(
      ...["create", "--name", "lost", "--count", "6", "--cpu", "0.5", "--max-scale", "2"],
      ...["--command", "sh", "--command", "-c", "--arg", untilGo],
    );
    let pid: string | undefined;
    while (pid === undefined) {
      const { runs } = await calls.get("lost");
      pid = /by process (\d+)/.exec(runs[0]?.reason ?? "")?.[1];
      await pause(50);
    }
    const refused = await calls.callHere("fleet", "delete", "--name", "lost");
    expect(refused.stderr).toContain("cancel it first: sluice fleet cancel --name lost\n");
    const placed = ["--name", "lost", "--fleets", "./fleets"];
    const there = await calls.callHere("fleet", "delete", ...placed);
    expect(there.stderr).toContain("sluice fleet cancel --name lost --fleets fleets\n");
    process.kill(Number(pid), "SIGKILL");
    expect(await calls.untilOver("lost")).toMatchObject({
      ...{ state: "failed", reason: "its process died" },
    });
    writeFileSync(join(folder, "go"), "");
    expect(await calls.call("fleet", "resume", "--name", "lost", "--quiet")).toMatchObject({
      code: 0,
    });
    expect(await calls.get("lost")).toMatchObject({ tasks: { successful: 6, total: 6 } });
  });

  it("reads the same from a job file, whose other keys are those of a job", async () => {
    const { folder, calls } = someFleet([shell("echo $WHO at $(pwd)")]);
    mkdirSync(join(folder, "job"));
    const file = join(folder, "job/fleet.yaml");
    writeFileSync(join(folder, "job/commands.jsonl"), readFileSync(join(folder, "commands.jsonl")));
    writeFileSync(
      file,
      [
        "fleet: { name: f, tasksFromLocalFile: commands.jsonl, retries: 0, env: { WHO: world } }",
        "keepJournals: true",
      ].join("\n"),
    );
    await calls.fleet("create", "-c", "job/fleet.yaml", "--name", "flagged", "--wait");
    expect(await calls.fleet("logs", "--name", "flagged")).toBe(`world at ${folder}\n`);
    const plan = JSON.parse(
      readFileSync(join(folder, "fleets/flagged/runs/000001/_sluice/plan.json"), "utf8"),
    );
    expect(plan.job).toMatchObject({ keepJournals: true, retries: { maxAttempts: 1 } });
    writeFileSync(file, "fleet: { nam: x, count: 1 }\nmodel: { engine: fake }\n");
    const wrong = await calls.callHere("fleet", "create", "-c", "job/fleet.yaml");
    expect(wrong.stderr).toContain("a fleet sets it");
    writeFileSync(file, "fleet: { nam: x, count: 1 }\n");
    const unknown = await calls.callHere("fleet", "create", "-c", "job/fleet.yaml");
    expect(unknown.stderr).toContain("did you mean name? (job/fleet.yaml:1, field fleet.nam)");
    const run = await calls.callHere("run", "job/fleet.yaml");
    expect(run).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("sluice fleet create -c"),
    });
  });

  it("keeps secrets out of its files, and of the logs", async () => {
    const { folder, calls } = someFleet();
    const secret = "hf_abcdefghijklmnop";
    const keyed = new FleetCalls(folder, { HF_TOKEN: secret });
    await keyed.fleet(
      ...["create", "--name", "keyed", "--count", "1", "--env", "HF_TOKEN", "--wait"],
      ...[
        "--command",
        "sh",
        "--command",
        "-c",
        "--arg",
        "echo $HF_TOKEN; printf %s $HF_TOKEN | wc -c",
      ],
    );
    expect(await calls.fleet("logs", "--name", "keyed")).toBe(`[redacted]\n${secret.length}\n`);
    // A value on the command line reaches the process in the background, and no file either,
    // whatever the name of its variable.
    await calls.fleet(
      ...["create", "--name", "given", "--tasks", "1", "--env", `LOGIN=${secret}`],
      ...["--command", "sh", "--command", "-c", "--arg", "echo $LOGIN; printf %s $LOGIN | wc -c"],
    );
    expect(await calls.untilOver("given")).toMatchObject({ state: "successful" });
    expect(await calls.fleet("logs", "--name", "given")).toBe(`[redacted]\n${secret.length}\n`);
    const found = execFileSync("sh", ["-c", `grep -rl ${secret} . || true`], {
      cwd: folder,
    });
    expect(found.toString()).toBe("");
  });

  it("refuses an image where nothing runs containers", async () => {
    const { calls } = someFleet();
    const { code, stderr } = await new FleetCalls(calls.folder, { PATH: "/nowhere" }).callHere(
      ...["fleet", "create", "--name", "boxed", "--count", "1", "--image", "example/tool:1"],
    );
    expect(code).toBe(69);
    expect(stderr).toContain("image example/tool:1 needs podman or docker");
    expect(stderr).toContain("podman: not on PATH; docker: not on PATH");
    expect(await calls.json("list")).toEqual([]);
  });
});
