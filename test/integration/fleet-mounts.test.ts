import { createHash, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { killQuietly, pause } from "../chaos/sluice-process.ts";
import { FleetCalls } from "../fleet-calls.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { S3Proxy } from "../s3-proxy.ts";
import { bucket, missingS3Server, S3Server } from "../s3-server.ts";

/** Workers that are killed while results are stored; more in `npm run test:long`. */
const maxKills = Number(process.env.TEST_SLUICE_KILLS ?? 4);

let server: S3Server;
beforeAll(async () => {
  if (missingS3Server === undefined) server = await S3Server.start();
});
afterAll(() => server?.stop());

const sha256 = (data: string | Buffer) => createHash("sha256").update(data).digest("hex");

/** All files below a folder, by their paths. */
function filesBelow(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile());
  return Object.fromEntries(
    files
      .map(({ parentPath, name }) => join(parentPath, name))
      .map((path) => [path.slice(folder.length + 1), readFileSync(path, "utf8")] as const),
  );
}

interface Result {
  idx: string;
  result: { exitCode: number; files?: { mount: number; name: string; sha256: string }[] };
}

/** Whether this machine shows mounts at their paths; where it does not, variables have them. */
const place = (path: string) => `$SLUICE_MOUNT_${path.toUpperCase()}`;

/** A program that reads an object of either store, and writes one to either. */
const readingBoth = `
i=$SLUICE_TASK_INDEX near=${place("near")} far=${place("far")}
[ "$(ls $near | wc -l)" -ge 100 ] && [ "$(ls $far/deep | wc -l)" -ge 100 ] || exit 9
[ "$(tr a-z A-Z < $near/$i.txt)" = "$(cat $far/deep/$i.txt)" ] || exit 8
echo "$i is whole" > $near/out-$i.txt
mkdir -p $far/results && cat $near/$i.txt $far/deep/$i.txt > $far/results/$i.txt
[ $i -ne 5 ] || exit 3`;

describe("mounts of a fleet", () => {
  it("brings 200 objects of two stores to programs, and results back, once", async (context) => {
    context.skip(missingS3Server !== undefined, missingS3Server);
    const folder = scratchFolder();
    const calls = new FleetCalls(folder, server.environment);
    const texts = Array.from({ length: 100 }, (_, at) => `text ${at} `.repeat(1 + (at % 7)));
    mkdirSync(join(folder, "near/words"), { recursive: true });
    for (const [at, text] of texts.entries()) {
      writeFileSync(join(folder, `near/words/${at}.txt`), text);
      mkdirSync(join(folder, "far/deep"), { recursive: true });
      writeFileSync(join(folder, `far/deep/${at}.txt`), text.toUpperCase());
    }
    const uploaded = await calls.call("upload", "far", server.location("far"));
    expect(uploaded, uploaded.stderr).toMatchObject({ code: 0 });
    writeFileSync(join(folder, "task.sh"), readingBoth);
    await calls.fleet(
      ...["create", "--name", "staged", "--count", "20", "--retries", "0", "--cpu", "0.5"],
      ...["--command", "sh", "--command", join(folder, "task.sh")],
      ...["--data-store", "near-store=near", "--data-store", `far-store=s3://${bucket}`],
      ...[
        "--mount-data-store",
        "/near=near-store:/words",
        "--mount-data-store",
        "/far=far-store:/far",
      ],
    );
    expect(await calls.untilOver("staged")).toMatchObject({ tasks: { successful: 19, failed: 1 } });
    const near = filesBelow(join(folder, "near/words"));
    const far = filesBelow(join(server.directory, bucket, "far"));
    const expectedNear = Object.fromEntries(texts.map((text, at) => [`${at}.txt`, text]));
    const expectedFar = Object.fromEntries(
      texts.map((text, at) => [`deep/${at}.txt`, text.toUpperCase()]),
    );
    for (let at = 0; at < 20; at++) {
      // What a failed task wrote is dropped.
      if (at === 5) continue;
      expectedNear[`out-${at}.txt`] = `${at} is whole\n`;
      expectedFar[`results/${at}.txt`] = texts[at]! + texts[at]!.toUpperCase();
    }
    expect(near).toEqual(expectedNear);
    expect(far).toEqual(expectedFar);
    const { stdout } = await calls.call("results", "fleets/staged/runs/000001");
    const results = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Result);
    const [first] = results;
    expect(first!.result.files).toEqual([
      { mount: 0, name: "out-0.txt", bytes: 11, sha256: sha256("0 is whole\n") },
      {
        mount: 1,
        name: "results/0.txt",
        bytes: far["results/0.txt"]!.length,
        sha256: sha256(far["results/0.txt"]!),
      },
    ]);
    // Objects were fetched once for all workers, and nothing of a try is left.
    const objects = readdirSync(join(folder, "home/mounts/objects"));
    const copies = objects.filter((name) => !name.endsWith(".lock"));
    const copied = copies.flatMap((name) => readdirSync(join(folder, "home/mounts/objects", name)));
    expect(copied.length).toBeGreaterThanOrEqual(200);
    const tries = join(folder, "home/mounts/tries");
    for (const worker of readdirSync(tries)) {
      expect(readdirSync(join(tries, worker))).toEqual(["owner.json"]);
    }
  });

  it("stores nothing of a try with a result that no store keeps", async () => {
    const folder = scratchFolder();
    const calls = new FleetCalls(folder);
    for (const name of ["in", "in/.sluice", "out"]) mkdirSync(join(folder, name));
    writeFileSync(join(folder, "in/a.txt"), "a");
    // As a killed process leaves it.
    writeFileSync(join(folder, "in/.sluice/left.txt"), "left");
    const temporary = `.tmp-${randomUUID()}-b.txt`;
    writeFileSync(join(folder, "in", temporary), "left");
    await calls.call(
      ...["fleet", "create", "--name", "piped", "--tasks-from", "in:", "--retries", "1", "--wait"],
      ...["--data-store", "in=in", "--data-store", "out=out", "--command", "sh", "--command", "-c"],
      ...["--mount-data-store", "/in=in:", "--mount-data-store", "/out=out:"],
      ...[
        "--arg",
        `ls -A ${place("in")}; echo b > ${place("in")}/b.txt; mkfifo ${place("out")}/pipe`,
      ],
    );
    const [task, ...others] = await calls.tasks("piped");
    expect(others).toEqual([]);
    expect(task).toMatchObject({
      state: "failed",
      cause: expect.stringMatching(/pipe .*\(pipe\)/),
    });
    expect(await calls.fleet("logs", "--name", "piped")).toBe("a.txt\n");
    expect(filesBelow(join(folder, "in"))).toEqual({
      ...{ "a.txt": "a", ".sluice/left.txt": "left", [temporary]: "left" },
    });
    expect(readdirSync(join(folder, "in/.sluice"))).toEqual(["left.txt"]);
    expect(readdirSync(join(folder, "out"))).toEqual([]);
  });

  it("shows the real paths where the machine permits it", async (context) => {
    const folder = scratchFolder();
    const calls = new FleetCalls(folder);
    mkdirSync(join(folder, "store"));
    writeFileSync(join(folder, "store/a.txt"), "seen\n");
    await calls.fleet(
      ...["create", "--name", "paths", "--count", "1", "--retries", "0", "--wait"],
      ...[
        "--mount-data-store",
        `/input/below=${folder}/store`,
        "--command",
        "sh",
        "--command",
        "-c",
      ],
      ...[
        "--arg",
        "echo $SLUICE_MOUNT_INPUT_BELOW; cat /input/below/a.txt; ls | head -1; touch /input/own",
      ],
    );
    const manifest = JSON.parse(
      readFileSync(join(folder, "fleets/paths/runs/000001/_manifest.json"), "utf8"),
    );
    context.skip(manifest.engine.choices.mounts !== "paths", "this machine permits no mounts");
    expect(await calls.fleet("logs", "--name", "paths")).toBe("/input/below\nseen\nfleets\n");
    // Nothing of that is on the machine.
    expect(existsSync("/input")).toBe(false);
  });

  it("keeps one try of a task whose workers are killed while results are stored", async () => {
    const folder = scratchFolder();
    const calls = new FleetCalls(folder);
    mkdirSync(join(folder, "store"));
    // A worker was killed as it wrote who it is.
    const torn = join(folder, "home/mounts/tries/.torn");
    mkdirSync(torn, { recursive: true });
    writeFileSync(join(torn, "owner.json"), '{"host":');
    // Files of a try name it, so that a mixture of two shows.
    const script = `
sleep 0.3
for i in 0 1 2 3 4 5 6 7 8 9; do
  mkdir -p ${place("out")}/$SLUICE_TASK_INDEX
  { echo $$; head -c 3000000 /dev/zero; } > ${place("out")}/$SLUICE_TASK_INDEX/$i
done`;
    writeFileSync(join(folder, "task.sh"), script);
    await calls.fleet(
      ...["create", "--name", "killed", "--count", String(3 * maxKills)],
      ...["--cpu", "0.5", "--max-scale", "4"],
      ...["--mount-data-store", `/out=${folder}/store`, "--command", "sh", "--command"],
      join(folder, "task.sh"),
    );
    let kills = 0;
    for (;;) {
      const { state } = await calls.get("killed");
      if (state !== "running" && state !== "pending") break;
      const workers = await calls.workers("killed");
      const living = workers.filter((worker) => worker.state === "running");
      // Each task gets its turn in the end: a task that is always killed fails.
      if (kills < maxKills && living.length > 0) {
        killQuietly(living[kills % living.length]!.pid, "SIGKILL");
        kills++;
      }
      await pause(300);
    }
    expect(kills).toBeGreaterThanOrEqual(maxKills / 2);
    const tasks = await calls.tasks("killed");
    for (const { index, state, cause } of tasks) {
      const target = join(folder, "store", index);
      if (state === "failed") {
        // In its program, or before that was begun.
        expect(cause).toMatch(/ended its engine|the engine ended unexpectedly/);
        expect(existsSync(target)).toBe(false);
        continue;
      }
      const files = filesBelow(target);
      expect(Object.keys(files).sort()).toEqual([..."0123456789"]);
      const writers = new Set(Object.values(files).map((text) => text.split("\n")[0]));
      expect(writers.size, `task ${index}`).toBe(1);
      for (const text of Object.values(files)) expect(text.length).toBeGreaterThan(3_000_000);
    }
    const successful = tasks.filter(({ state }) => state === "successful");
    expect(successful.length).toBeGreaterThanOrEqual(2 * maxKills);
  });

  it("counts results that have their names, though their worker is lost", async (context) => {
    context.skip(missingS3Server !== undefined, missingS3Server);
    const folder = scratchFolder();
    const workers = join(folder, "fleets/named/runs/000001/_sluice/workers");
    const kills: string[] = [];
    const killWorkers = (method: string) => {
      kills.push(method);
      // A record that is just written has a temporary name.
      for (const name of readdirSync(workers).filter((each) => !each.startsWith("."))) {
        const { status, pid } = JSON.parse(readFileSync(join(workers, name), "utf8"));
        if (status === "running") killQuietly(pid, "SIGKILL");
      }
      return "reset" as const;
    };
    // Three times while a result is stored: once more alone, and the task would have failed. Then
    // when the result has its name, and its first one is removed.
    const proxy = await S3Proxy.start({
      server: server.address,
      fault({ method, url }) {
        if (!url.includes("/.sluice/") || kills.length === 4) return undefined;
        return method === (kills.length < 3 ? "PUT" : "DELETE") ? killWorkers(method) : undefined;
      },
    });
    onTestFinished(() => proxy.stop());
    const environment = { ...server.environment, AWS_ENDPOINT_URL_S3: proxy.address };
    const calls = new FleetCalls(folder, environment);
    await calls.fleet(
      ...["create", "--name", "named", "--count", "1", "--wait"],
      ...["--mount-data-store", `/out=${server.location("named")}`],
      ...["--command", "sh", "--command", "-c", "--arg"],
      `echo x >> tries; cp tries ${place("out")}/result.txt`,
    );
    expect(kills).toEqual(["PUT", "PUT", "PUT", "DELETE"]);
    expect(await calls.tasks("named")).toMatchObject([{ state: "successful", resultCode: 0 }]);
    // The results count, so the program did not run again.
    const stored = join(server.directory, bucket, "named/result.txt");
    for (const file of [stored, join(folder, "tries")]) {
      expect(readFileSync(file, "utf8")).toBe("x\n".repeat(4));
    }
  });

  it("takes a task for each object, and refuses what no store can keep", async () => {
    const folder = scratchFolder();
    const calls = new FleetCalls(folder);
    mkdirSync(join(folder, "store/in/deep"), { recursive: true });
    for (const name of ["b.txt", "a.txt", "deep/c.txt"]) {
      writeFileSync(join(folder, "store/in", name), name);
    }
    const script = `
cat ${place("in")}/$SLUICE_TASK_OBJECT; echo
echo changed > ${place("in")}/$SLUICE_TASK_OBJECT
case $SLUICE_TASK_OBJECT in deep/*) ln -s x ${place("in")}/link;; esac`;
    writeFileSync(join(folder, "task.sh"), script);
    const { code } = await calls.call(
      ...["fleet", "create", "--name", "each", "--tasks-from", "data:/in", "--retries", "0"],
      ...[
        "--data-store",
        "data=store",
        "--mount-data-store",
        "/in=data:/in",
        "--cpu",
        "2",
        "--wait",
      ],
      ...["--command", "sh", "--command", join(folder, "task.sh")],
    );
    expect(code).toBe(1);
    expect(await calls.fleet("logs", "--name", "each", "--index", "0")).toBe("a.txt\n");
    const tasks = await calls.tasks("each");
    expect(tasks.map(({ state }) => state)).toEqual(["successful", "successful", "failed"]);
    expect(tasks[2]!.cause).toContain("only files can be results");
    // A change of an object is a result, which only that task has.
    expect(filesBelow(join(folder, "store"))).toEqual({
      ...{ "in/a.txt": "changed\n", "in/b.txt": "changed\n", "in/deep/c.txt": "deep/c.txt" },
    });
  });

  it("is in a bucket itself, if that is its place", async (context) => {
    context.skip(missingS3Server !== undefined, missingS3Server);
    const folder = scratchFolder();
    const calls = new FleetCalls(folder, server.environment);
    const at = ["--fleets", server.location("all/fleets")];
    const created = await calls.fleet(
      ...["create", ...at, "--name", "far", "--count", "3", "--cpu", "0.5", "--retries", "0"],
      ...["--command", "sh", "--command", "-c", "--arg", "echo $SLUICE_TASK_INDEX; sleep 1"],
    );
    expect(created).toContain(" --fleets s3://");
    const id = /ID '([^']+)'/.exec(created)![1]!;
    const states = async () => {
      const text = await calls.fleet("task", "list", ...at, "--fleet-id", id, "--json");
      return text
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { state: string }).state);
    };
    while ((await states()).some((state) => state !== "successful")) await pause(1000);
    expect(await calls.fleet("logs", ...at, "--id", id, "--index", "2")).toBe("2\n");
    await calls.fleet("add", ...at, "--id", id, "--count", "1");
    while ((await states()).join() !== "successful,successful,successful,successful") {
      await pause(1000);
    }
    // The process in the background may still seal.
    for (let isDeleted = false; !isDeleted; await pause(300)) {
      isDeleted = (await calls.callHere("fleet", "delete", ...at, "--id", id)).code === 0;
    }
    expect(existsSync(join(server.directory, bucket, "all"))).toBe(false);
    expect(existsSync(join(folder, "fleets"))).toBe(false);
  });

  it("is in the bucket of its job file's store, also for later processes", async (context) => {
    context.skip(missingS3Server !== undefined, missingS3Server);
    const folder = scratchFolder();
    const { AWS_ENDPOINT_URL_S3: endpoint, ...environment } = server.environment;
    const calls = new FleetCalls(folder, environment);
    writeFileSync(join(folder, "fleet.yaml"), JSON.stringify({ store: { endpoint } }));
    const create = (name: string, ...words: string[]) =>
      calls.fleet(
        ...["create", "--fleets", server.location("own/fleets"), "--name", name, "--count", "1"],
        ...["--command", "echo", "--arg", "done", ...words],
      );
    const created = await create("own", "-c", "fleet.yaml");
    const get = /'sluice fleet (get [^']+)'/.exec(created)![1]!;
    expect(get).toContain(` --store.endpoint ${endpoint}`);
    while (!/Status: +successful/.test(await calls.fleet(...get.split(" ")))) await pause(500);
    await create("waits", "-c", "fleet.yaml", "--store.region", "us-east-1", "--wait");
    // For workers elsewhere, the plan has both.
    const plan = join(server.directory, bucket, "own/fleets/waits/runs/000001/_sluice/plan.json");
    const { store } = JSON.parse(readFileSync(plan, "utf8")).job;
    expect(store).toEqual({ endpoint, region: "us-east-1" });
  });
});
