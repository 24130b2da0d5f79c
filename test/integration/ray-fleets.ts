import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { isRunning, killQuietly, pause, stillRunning } from "../chaos/sluice-process.ts";
import { FleetCalls } from "../fleet-calls.ts";
import { type RayCluster, rayPython, until } from "../ray-cluster.ts";
import { scratchFolder } from "../run/whole-run.ts";

/** A secret that only the nodes have. */
export const headToken = "hf_abcdefghijklmnop";

/** A person with a folder that all nodes see, and a job file that names the cluster. */
function person(address: string) {
  const folder = scratchFolder();
  const calls = new FleetCalls(folder);
  const ray = { address, python: rayPython, shared: true };
  writeFileSync(join(folder, "fleet.yaml"), JSON.stringify({ ray }));
  const create = (name: string, ...words: string[]) =>
    calls.fleet("create", "-c", "fleet.yaml", "--backend", "ray", "--name", name, ...words);
  const linesOf = (file: string) =>
    existsSync(join(folder, file)) ? readFileSync(join(folder, file), "utf8").split("\n") : [];
  return {
    ...{ folder, calls, create },
    /** The lines that programs wrote into a file. */
    lines: (file: string) => linesOf(file).slice(0, -1),
    let: (file: string) => writeFileSync(join(folder, file), ""),
  };
}

const shell = (text: string) => ["--command", "sh", "--command", "-c", "--arg", text];
const print = (name: string) => shell(`echo $${name}; printf %s $${name} | wc -c`);

function expectNowhere(secret: string, ...folders: string[]): void {
  const script = `grep -rl ${secret} "$@" || true`;
  expect(execFileSync("sh", ["-c", script, "sh", ...folders], { encoding: "utf8" })).toBe("");
}

/**
 * What is tested of fleets, on a cluster that other tests had before: two further nodes have two
 * L40S each, and the head has no CPU. The last one loses a node.
 */
export const fleetTests: Record<string, (cluster: RayCluster) => Promise<void>> = {
  async "is the same fleet, whose bookings are those of Ray's workers"(cluster) {
    const me = person(cluster.address);
    const { calls } = me;
    const where = "$SLUICE_TASK_INDEX of $SLUICE_TASK_COUNT on $SLUICE_RAY_NODE";
    const gpu = "with GPU $CUDA_VISIBLE_DEVICES for $WHO";
    const said = await me.create(
      ...["far", "--count", "6", "--max-scale", "3", "--env", "WHO=you"],
      ...["--cpu", "2", "--memory", "64M", "--gpu", "l40s:1"],
      ...shell(`echo ${where} ${gpu}; echo >> begun; until [ -e go ]; do sleep 0.1; done`),
    );
    expect(said).toMatch(/^Successfully created fleet with name 'far' and ID '/);
    await until(() => me.lines("begun").length === 3, "three programs");
    expect(await cluster.booked()).toEqual([
      ...Array.from({ length: 3 }, () => ({
        ...{ CPU: 2, GPU: 1, memory: 64 * 2 ** 20, "accelerator_type:L40S": 0.001 },
      })),
    ]);
    expect(await calls.get("far")).toMatchObject({
      ...{ state: "running", tasks: { running: 3, pending: 3, total: 6 } },
    });
    const places = [1, 2].map((node) => cluster.addressOf(node)).join("|");
    const row = `^far-[012] +\\w+ +running +2x64MxL40S:1 +\\S+ +ray \\w+ on (${places}) +v`;
    const workers = await calls.fleet("worker", "list", "--name", "far");
    expect(workers.match(new RegExp(row, "gim"))).toHaveLength(3);
    const tasks = await calls.fleet("task", "list", "--name", "far", "--status", "running");
    expect(tasks.match(/^000-00000-\d .* running +- +far-[012]$/gm)).toHaveLength(3);
    me.let("go");
    expect(await calls.untilOver("far")).toMatchObject({
      ...{ state: "successful", tasks: { successful: 6, total: 6 } },
    });
    const logs = await calls.fleet("logs", "--name", "far");
    const line = new RegExp(`^(\\d) of 6 on (?:${places}) with GPU [01] for you$`, "gm");
    expect([...logs.matchAll(line)].map(([, task]) => task)).toEqual([..."012345"]);
    expect(await calls.call("verify", "fleets/far/runs/000001")).toMatchObject({ code: 0 });
  },

  async "is created, grown and canceled from outside, by the address of the dashboard"(cluster) {
    const me = person(cluster.dashboard);
    const { calls } = me;
    const text =
      "echo $SLUICE_TASK_INDEX on $SLUICE_RAY_NODE for $WHO; echo $$ >> begun; " +
      "until [ -e go ]; do sleep 0.1; done; [ $SLUICE_TASK_INDEX -lt 3 ] || sleep 600";
    const flags = ["--max-scale", "2", "--env", "WHO=you", ...shell(text)];
    await me.create("out", "--count", "3", ...flags);
    await until(() => me.lines("begun").length === 2, "two programs");
    expect(await calls.get("out")).toMatchObject({
      ...{ state: "running", tasks: { running: 2, pending: 1, total: 3 } },
    });
    // Tasks that are added go on as another job, once this one has ended.
    await calls.fleet("add", "--name", "out", "--count", "4");
    me.let("go");
    await until(() => me.lines("begun").length === 5, "two of the added programs");
    const logs = await calls.fleet("logs", "--name", "out");
    const node = `(${cluster.addressOf(1)}|${cluster.addressOf(2)})`;
    expect(logs.match(new RegExp(`^[012] on ${node} for you$`, "gm"))).toHaveLength(3);
    expect(await calls.call("verify", "fleets/out/runs/000001")).toMatchObject({ code: 0 });
    await calls.fleet("cancel", "--name", "out", "--hard");
    expect(await calls.untilOver("out")).toMatchObject({
      ...{ state: "canceled", tasks: { successful: 3, canceled: 4, total: 7 } },
    });
    expect(await stillRunning(me.lines("begun").map(Number))).toEqual([]);
  },

  async "refuses from outside what cannot work there"(cluster) {
    const me = person(cluster.dashboard);
    const ray = { python: rayPython, shared: true };
    for (const [changes, said] of [
      [{ address: "http://127.0.0.1:9" }, /RAY_UNREACHABLE.*127\.0\.0\.1:9/],
      [{ address: cluster.dashboard, shared: false }, /DIRECTORY_NOT_SHARED.*--fleets/],
    ] as const) {
      writeFileSync(join(me.folder, "fleet.yaml"), JSON.stringify({ ray: { ...ray, ...changes } }));
      const create = ["fleet", "create", "-c", "fleet.yaml", "--backend", "ray", "--name", "no"];
      const { stderr } = await me.calls.callHere(...create, "--count", "1", "--command", "true");
      expect(stderr).toMatch(said);
    }
    expect(await me.calls.json("list")).toEqual([]);
  },

  async "has its secrets from the head, and sends none there"(cluster) {
    const me = person(cluster.dashboard);
    const own = "hf_another_one_of_this_machine";
    const env = ["--env", `HEAD_TOKEN=${own}`];
    await me.create("keyed", "--count", "1", ...env, ...print("HEAD_TOKEN"));
    expect(await me.calls.untilOver("keyed")).toMatchObject({ state: "successful" });
    const said = `[redacted]\n${headToken.length}\n`;
    expect(await me.calls.fleet("logs", "--name", "keyed")).toBe(said);
    for (const secret of [own, headToken]) expectNowhere(secret, me.folder, cluster.directory);
  },

  async "goes on where a worker is lost, its process, or a whole node"(cluster) {
    const me = person(cluster.address);
    const { calls } = me;
    await me.create(
      ...["lost", "--count", "6", "--max-scale", "2", "--cpu", "2"],
      ...shell(
        "echo $SLUICE_TASK_INDEX $$ $SLUICE_RAY_NODE >> begun; " +
          "until [ -e go ]; do sleep 0.1; done; echo $SLUICE_TASK_INDEX >> done",
      ),
    );
    const begun = () => me.lines("begun").map((line) => line.split(" "));
    await until(() => begun().length === 2, "two programs");
    const running = async () =>
      (await calls.workers("lost")).filter(({ state }) => state === "running");
    const [victim] = await running();
    killQuietly(victim!.pid, "SIGKILL");
    await until(() => begun().length === 3, "the lost task again");
    const [first, second, third] = begun();
    expect([first![0], second![0]]).toContain(third![0]);
    // Its program ended with it.
    const lost = [first!, second!].find(([task]) => task === third![0])!;
    expect(await stillRunning([Number(lost[1])])).toEqual([]);
    const states = (await calls.tasks("lost")).map(({ state }) => state);
    expect(states.filter((state) => state === "running")).toHaveLength(2);
    // The process that drives the fleet dies: all end with it, and another one goes on.
    const { runs } = await calls.get("lost");
    const driver = Number(/by process (\d+)/.exec(runs[0]!.reason!)![1]);
    process.kill(driver, "SIGKILL");
    expect(await stillRunning(begun().map(([, pid]) => Number(pid)))).toEqual([]);
    expect(await calls.untilOver("lost")).toMatchObject({
      ...{ state: "failed", reason: "its process died", tasks: { running: 0, successful: 0 } },
    });
    const resumed = calls.start("fleet", "resume", "--name", "lost", "--quiet");
    await until(() => begun().length === 5, "two programs again");
    const [, address] = (await running())[0]!.scheduler!.split(" on ");
    cluster.signalNode(address === cluster.addressOf(1) ? 1 : 2, "SIGKILL");
    await until(() => begun().length >= 6, "those of the lost node again");
    me.let("go");
    const ended = await resumed.ended;
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    expect(await calls.get("lost")).toMatchObject({ tasks: { successful: 6, total: 6 } });
    expect(new Set(me.lines("done"))).toEqual(new Set([..."012345"]));
    expect(await calls.call("verify", "fleets/lost/runs/000001")).toMatchObject({ code: 0 });
  },
};

/**
 * For `npm run test:long`: coordinator and programs are those of local fleets, whose tests are in
 * `fleet.test.ts` and `fleet-bookings.test.ts`. A run from outside says which secrets are missing.
 */
export const longFleetTests: typeof fleetTests = {
  async "shares a GPU between programs that book half of one, and keeps none waiting"(cluster) {
    const me = person(cluster.address);
    await me.create(
      ...["half", "--count", "4", "--max-scale", "4", "--gpu", "l40s:0.5"],
      ...shell(
        "echo $SLUICE_RAY_NODE $CUDA_VISIBLE_DEVICES >> begun; until [ -e go ]; do sleep 0.1; done",
      ),
    );
    await until(() => me.lines("begun").length === 4, "four programs");
    expect(await cluster.booked()).toMatchObject([
      { CPU: 2, GPU: 1 },
      { CPU: 2, GPU: 1 },
    ]);
    expect(new Set(me.lines("begun")).size).toBe(2);
    me.let("go");
    expect(await me.calls.untilOver("half")).toMatchObject({ tasks: { successful: 4 } });
  },

  async "says which secret the head lacks, and sends it none"(cluster) {
    const me = person(cluster.dashboard);
    const own = "sk-0123456789abcdef";
    await me.create("keyless", "--count", "1", "--env", `API_KEY=${own}`, ...print("API_KEY"));
    expect(await me.calls.untilOver("keyless")).toMatchObject({
      ...{ state: "failed", reason: expect.stringMatching(/^ENV_MISSING: .*API_KEY/) },
      tasks: { pending: 1, total: 1 },
    });
    expectNowhere(own, me.folder, cluster.directory);
  },

  async "gets more tasks, and is canceled hard: no program is left on any node"(cluster) {
    const me = person(cluster.address);
    await me.create(
      ...["grown", "--count", "2", "--max-scale", "2"],
      ...shell("echo $$ >> pids; [ $SLUICE_TASK_INDEX -lt 2 ] || exec sleep 600"),
    );
    const added = await me.calls.fleet("add", "--name", "grown", "--count", "4");
    expect(added).toContain("Successfully added 4 tasks to fleet 'grown'");
    await until(() => me.lines("pids").length === 4, "two of the added programs");
    expect((await me.calls.tasks("grown")).map(({ index }) => index)).toEqual([..."012345"]);
    await me.calls.fleet("cancel", "--name", "grown", "--hard");
    expect(await me.calls.untilOver("grown")).toMatchObject({
      ...{ state: "canceled", tasks: { successful: 2, canceled: 4, total: 6 } },
    });
    expect(await stillRunning(me.lines("pids").map(Number))).toEqual([]);
    await until(async () => (await cluster.booked()).length === 0, "the actors to leave");
    expect(await me.calls.fleet("delete", "--name", "grown")).toContain("OK");
  },

  async "lets running programs come to their end where it is canceled softly"(cluster) {
    const me = person(cluster.address);
    await me.create(
      ...["soft", "--count", "6", "--max-scale", "2"],
      ...shell("echo >> begun; until [ -e go ]; do sleep 0.1; done; echo >> done"),
    );
    await until(() => me.lines("begun").length === 2, "two programs");
    await me.calls.fleet("cancel", "--name", "soft");
    // Its coordinator looks for orders every now and then, and tells nobody that it saw one.
    await pause(4000);
    me.let("go");
    const { state, tasks } = await me.calls.untilOver("soft");
    const { length } = me.lines("begun");
    expect(length).toBeLessThan(6);
    expect([state, tasks]).toMatchObject([
      "canceled",
      { successful: length, canceled: 6 - length, total: 6 },
    ]);
    expect(me.lines("done")).toHaveLength(length);
  },

  async "tries failed programs again, ends late ones, and knows their codes"(cluster) {
    const me = person(cluster.address);
    const commands = [
      "echo x >> tries-0; [ $(wc -l < tries-0) -eq 3 ]",
      "echo x >> tries-1; echo no such recipe >&2; exit 3",
      "echo $$ >> pids; sleep 600 & echo $! >> pids; trap '' TERM; sleep 600; sleep 600",
      "kill -s SEGV $$",
    ];
    const text = commands.map((command) => JSON.stringify({ cmds: ["sh", "-c", command] }));
    writeFileSync(join(me.folder, "commands.jsonl"), `${text.join("\n")}\n`);
    await me.create(
      ...["tried", "--tasks-from-local-file", "commands.jsonl", "--cpu", "0.25"],
      ...["--retries", "2", "--timeout", "1s"],
    );
    expect(await me.calls.untilOver("tried")).toMatchObject({
      ...{ state: "failed", reason: "3 of 4 tasks failed" },
    });
    const tasks = await me.calls.tasks("tried");
    expect(tasks.map(({ state, resultCode }) => [state, resultCode])).toEqual([
      ...[
        ["successful", 0],
        ["failed", 3],
        ["failed", 137],
        ["failed", 139],
      ],
    ]);
    expect(tasks[1]!.cause).toContain("exit code 3; its last line: no such recipe");
    expect(me.lines("tries-1")).toHaveLength(3);
    const pids = me.lines("pids").map(Number);
    expect(pids).toHaveLength(6);
    expect(pids.filter(isRunning)).toEqual([]);
  },
};
