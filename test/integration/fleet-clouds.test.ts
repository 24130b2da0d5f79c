import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { stillRunning } from "../chaos/sluice-process.ts";
import { type Cloud, cloudClient, cloudOrAll, clouds, skipWithoutClouds } from "../cloud-client.ts";
import { FleetCalls } from "../fleet-calls.ts";
import { isLong } from "../long.ts";
import { until } from "../ray-cluster.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { bucket, missingS3Server, S3Server } from "../s3-server.ts";
import { sluiceProgram } from "../sluice-program.ts";

let server: S3Server;

beforeAll(async () => {
  if (missingS3Server === undefined) server = await S3Server.start();
});
afterAll(() => server?.stop());

const image = "registry.example/tools:1";

/** The settings of a backend whose machines have Sluice at this place. */
function settingsOf(cloud: Cloud) {
  const command = [process.execPath, sluiceProgram];
  return cloud === "sky"
    ? { sky: { software: "installed", command } }
    : { codeEngine: { stateStore: "tasks", subnetPool: "pool", envFrom: ["keys"], command } };
}

/** A person whose cloud is this machine: fleets and stores are in a bucket. */
function person(cloud: Cloud) {
  const folder = scratchFolder();
  const name = `${cloud}-${folder.split(/[/-]/).at(-1)}`;
  const place = (path: string) => server.location(`${name}/${path}`);
  const stored = join(server.directory, bucket, name);
  mkdirSync(join(stored, "in"), { recursive: true });
  const machines = cloudClient(folder, cloud);
  const environment = {
    ...server.environment,
    ...machines.environment,
    SLUICE_FLEETS: place("fleets"),
    WHO: "you",
  };
  const calls = new FleetCalls(folder, environment);
  const file = (more: object = {}) => {
    const stores = { input: place("in"), output: place("out") };
    const job = { backend: cloud, stores, ...settingsOf(cloud), ...more };
    writeFileSync(join(folder, "fleet.yaml"), JSON.stringify(job));
  };
  file();
  return {
    ...{ folder, stored, calls, machines, place, file },
    create: (own: string, ...words: string[]) =>
      calls.fleet("create", "-c", "fleet.yaml", "--name", own, "--image", image, ...words),
    /** The lines that programs wrote into a file of the folder. */
    lines: (name: string) =>
      readdirSync(folder).includes(name)
        ? readFileSync(join(folder, name), "utf8").split("\n").slice(0, -1)
        : [],
  };
}

const shell = (text: string) => ["--command", "sh", "--command", "-c", "--arg", text];

describe.each(clouds)("a fleet on %s, by a stand-in", (cloud) => {
  beforeEach(skipWithoutClouds);

  it("is the same fleet: tables, stores, variables, tries, and further tasks", async () => {
    const { calls, create, stored, folder, machines } = person(cloud);
    writeFileSync(join(stored, "in/a.txt"), "one two three\n");
    const commands = [
      "wc -w < $SLUICE_MOUNT_INPUT/a.txt > $SLUICE_MOUNT_OUTPUT/$SLUICE_TASK_INDEX.txt; echo $WHO $A",
      "echo x >> tries; echo no such recipe >&2; exit 3",
      "sleep 600",
    ].map((text) => JSON.stringify({ cmds: ["sh", "-c", text] }));
    writeFileSync(join(folder, "commands.jsonl"), `${commands.join("\n")}\n`);
    const said = await create(
      ...["far", "--tasks-from-local-file", "commands.jsonl", "--max-scale", "2"],
      ...["--cpu", "2", "--memory", "4G", "--retries", "1", "--timeout", "2s"],
      ...["--env", "WHO", "--env", "A=b c"],
      ...["--mount-data-store", "/input=input:", "--mount-data-store", "/output=output:/words"],
    );
    expect(said).toMatch(/^Successfully created fleet with name 'far' and ID '/);
    expect(await calls.untilOver("far")).toMatchObject({
      ...{ state: "failed", reason: "2 of 3 tasks failed" },
      tasks: { successful: 1, failed: 2, total: 3 },
    });
    expect(readFileSync(join(stored, "out/words/0.txt"), "utf8").trim()).toBe("3");
    const tasks = await calls.tasks("far");
    expect(tasks.map(({ state, resultCode }) => [state, resultCode])).toEqual([
      ...[
        ["successful", 0],
        ["failed", 3],
        ["failed", 143],
      ],
    ]);
    expect(tasks[1]!.cause).toContain("exit code 3; its last line: no such recipe");
    expect(await calls.fleet("logs", "--name", "far", "--index", "0")).toBe("you b c\n");
    const everyTry = await calls.fleet("logs", "--name", "far", "--index", "1", "--all-tries");
    expect(everyTry.match(/no such recipe/g)).toHaveLength(2);
    const { name, words } = machines.records()[0]!;
    const zone = cloud === "sky" ? "sky \\d" : `code-engine ${name} \\d`;
    const workers = await calls.fleet("worker", "list", "--name", "far");
    const row = `^far-[01] +\\w+ +successful +2x4G +\\S+ +${zone} +v`;
    expect(workers.match(new RegExp(row, "gm"))).toHaveLength(2);
    expect(await calls.fleet("list")).toMatch(/^far +\S+ +failed +3 +1 +2 /m);
    await until(machines.isGone, "the machines to go");
    // Each of both workers started once: failed commands are no failures of machines.
    expect(machines.lastCodes()).toEqual([0, 0]);
    if (cloud === "sky") expect(words.join(" ")).toMatch(/--secret WHO\b/);
    else expect(words.join(" ")).toContain("--worker-profile cx2-2x4 --cpu 2 --memory 4G");
    const without = await calls.callHere("fleet", "add", "--name", "far", "--count", "1");
    expect(without.stderr).toContain("task 3 has no command");
    expect(without.stderr).toContain("workers in the image do not know its entry point");
    writeFileSync(join(folder, "more.jsonl"), '{"cmds": ["echo", "more"]}\n');
    await calls.fleet("add", "--name", "far", "--tasks-from-local-file", "more.jsonl");
    expect(await calls.untilOver("far")).toMatchObject({ tasks: { successful: 2, total: 4 } });
    expect(await calls.fleet("logs", "--name", "far", "--index", "3")).toBe("more\n");
    expect(machines.records()).toHaveLength(3);
    const id = /ID '(\S+)'/.exec(said)![1]!;
    expect(await calls.fleet("delete", "--fleet-id", id)).toBe("Deleting fleet 'far'...\nOK\n");
    expect(await calls.json("list")).toEqual([]);
  });

  it("refuses by name what machines far away cannot do, and leaves nothing", async () => {
    const { calls, file, machines } = person(cloud);
    const far = /DIRECTORY_NOT_SHARED.*(here|own).* do not see it \(--(fleets|data-store)\)/;
    const refusals: [words: string[], said: RegExp][] = [
      [["--fleets", "here"], far],
      [["--data-store", "own=own", "--mount-data-store", "/in=own:"], far],
    ];
    if (cloud === "sky") {
      refusals.push([["--registry-secret", "pull"], /no effect with backend sky\s.*sky.secrets/]);
    } else {
      file({ codeEngine: { ...settingsOf(cloud).codeEngine, envFrom: undefined } });
      refusals.push([["--gpu", "tpu:1"], /no machine of Code Engine has gpu: tpu/]);
      refusals.push([["--env", "WHO"], /do not get WHO from here; .*codeEngine.envFrom/]);
    }
    for (const [words, said] of refusals) {
      const { code, stderr } = await calls.callHere(
        ...["fleet", "create", "-c", "fleet.yaml", "--name", "f", "--count", "1"],
        ...["--image", image, "--command", "true", ...words],
      );
      expect({ code, stderr }).toEqual({ code: 64, stderr: expect.stringMatching(said) });
    }
    expect(await calls.json("list")).toEqual([]);
    expect(machines.records()).toEqual([]);
  });
});

describe("a fleet on a cloud", () => {
  beforeEach(skipWithoutClouds);

  it.each(cloudOrAll("code-engine"))(
    "is canceled there, hard and in `npm run test:long` softly: nothing is left there: %s",
    async (cloud) => {
      const { calls, create, lines, machines } = person(cloud);
      for (const [name, flags] of [
        ["hard", ["--hard"]],
        ...(isLong ? ([["soft", []]] as const) : []),
      ] as const) {
        const text = `echo $$ >> ${name}; [ $SLUICE_TASK_INDEX -eq 0 ] || sleep 600`;
        await create(name, "--count", "6", "--max-scale", "2", ...shell(text));
        await until(() => lines(name).length >= 3, "three programs");
        await calls.fleet("cancel", "--name", name, ...flags);
        expect(await calls.untilOver(name), name).toMatchObject({
          ...{ state: "canceled", tasks: { successful: 1, canceled: 5, total: 6 } },
        });
        expect(await stillRunning(lines(name).map(Number), 10_000)).toEqual([]);
        await until(machines.isGone, "the machines to go");
        expect(lines(name)).toHaveLength(3);
      }
    },
  );

  it.each(cloudOrAll("code-engine"))(
    "is canceled there where nobody drives it: its workers are not started again: %s",
    async (cloud) => {
      const { calls, create, lines, machines } = person(cloud);
      await create("left", "--count", "6", "--max-scale", "2", ...shell("echo >> left; sleep 600"));
      await until(() => lines("left").length === 2, "two programs");
      const { runs } = await calls.get("left");
      process.kill(Number(/by process (\d+)/.exec(runs[0]!.reason!)![1]), "SIGKILL");
      await calls.fleet("cancel", "--name", "left");
      await until(machines.isGone, "the machines to go");
      expect(await calls.untilOver("left")).toMatchObject({
        ...{ state: "canceled", tasks: { canceled: 6, total: 6 } },
      });
      expect(lines("left")).toHaveLength(2);
    },
  );

  it.each(cloudOrAll("sky"))(
    "goes on where a worker is lost in the middle, and where nobody drives it: %s",
    async (cloud) => {
      const { calls, create, lines, folder, machines } = person(cloud);
      await create(
        ...["lost", "--count", "6", "--max-scale", "2"],
        ...shell("echo $SLUICE_TASK_INDEX $$ >> begun; until [ -e go ]; do sleep 0.1; done"),
      );
      await until(() => lines("begun").length === 2, "two programs");
      const { runs } = await calls.get("lost");
      const driver = Number(/by process (\d+)/.exec(runs[0]!.reason!)![1]);
      process.kill(driver, "SIGKILL");
      process.kill(-machines.workerPid(1), "SIGKILL");
      const programs = () => lines("begun").map((line) => Number(line.split(" ")[1]));
      await until(() => lines("begun").length >= 3, "the lost task again");
      // The program of the lost worker ended with it.
      expect(await stillRunning(programs(), 15_000)).toHaveLength(2);
      expect(await calls.get("lost")).toMatchObject({ tasks: { running: 2, successful: 0 } });
      writeFileSync(join(folder, "go"), "");
      expect(await calls.untilOver("lost")).toMatchObject({
        ...{ state: "successful", tasks: { successful: 6, total: 6 } },
      });
      expect(machines.records()).toHaveLength(2);
      await until(machines.isGone, "the machines to go");
      expect(machines.lastCodes()).toEqual([0, 0]);
    },
  );
});
