import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  onTestFinished,
  vi,
} from "vitest";
import { results as readResults, status as stateOf, verify } from "../../src/index.ts";
import { runSluice, startSluice } from "../chaos/sluice-process.ts";
import { callHere } from "../cli/call.ts";
import { bucket, missingS3Server, S3Server } from "../s3-server.ts";
import { sluiceProgram } from "../sluice-program.ts";

const rows = Array.from({ length: 40 }, (_, row) => `{"id":"r${row}","text":"row ${row}"}`);
const asked = [
  "--model",
  "fake",
  "--prompt",
  "Say {{ text }}",
  "--seed",
  "1",
  "--shard.rows",
  "10",
];

describe("a run in an object store", () => {
  beforeEach((context) => context.skip(missingS3Server !== undefined, missingS3Server));
  afterEach(() => void vi.unstubAllEnvs());

  const folder = mkdtempSync(join(tmpdir(), "sluice-s3-run-"));
  writeFileSync(join(folder, "rows.jsonl"), `${rows.join("\n")}\n`);
  let server: S3Server;
  let endpoint: string[];
  beforeAll(async () => {
    if (missingS3Server !== undefined) return;
    server = await S3Server.start();
    endpoint = ["--store.endpoint", server.address];
  });
  afterAll(async () => {
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** `sluice` with credentials, and no address but what its options say. */
  function environment(): Record<string, string> {
    const { AWS_ENDPOINT_URL_S3: _, ...credentials } = server.environment;
    return { ...credentials, SLUICE_HOME: join(folder, "home") };
  }
  async function sluice(...args: string[]) {
    const end = await runSluice(args, folder, environment());
    expect(end.stderr).not.toContain("testsecret");
    return end;
  }
  /** For what starts no worker, in this process. */
  async function sluiceHere(...args: string[]) {
    const end = await callHere(args, folder, environment());
    expect(end.stderr).not.toContain("testsecret");
    return end;
  }
  const objects = (prefix: string) => {
    const root = join(server.directory, bucket, prefix);
    const names = readdirSync(root, { recursive: true, withFileTypes: true });
    return names.filter((it) => it.isFile()).map((it) => join(it.parentPath, it.name));
  };

  it("is looked at, verified, read, gone on with, cleaned and retried by its place", async () => {
    const place = `s3://${bucket}/whole`;
    const job = ["run", "--input", "rows.jsonl", ...asked, "--output", place, ...endpoint];
    const failing = ["--model.failures", '[{"row":3,"kind":"refused"}]'];
    const first = await sluice(...job, ...failing);
    expect(first.code, first.stderr).toBe(1);
    expect(JSON.parse(first.stdout)).toMatchObject({ sealed: true, output: place });
    const status = JSON.parse((await sluice("status", place, "--json", ...endpoint)).stdout);
    expect(status).toMatchObject({ state: "failed" });
    const verified = await sluice("verify", place, ...endpoint);
    expect(verified.stdout).toContain("4 tasks, 40 rows");
    const results = (await sluice("results", place, ...endpoint)).stdout.trim().split("\n");
    expect(results.map((line) => JSON.parse(line).id)).toEqual(
      Array.from({ length: 40 }, (_, row) => `r${row}`).filter((id) => id !== "r3"),
    );
    expect((await sluice(...job, ...failing)).stderr).toContain("there is nothing to do");
    expect((await sluice("clean", place, ...endpoint)).code).toBe(0);
    const retried = await sluice("retry", place, "--set", "model.failures=[]", ...endpoint);
    expect(retried.code, retried.stderr).toBe(0);
    const after = await sluice("verify", place, ...endpoint);
    expect(after.code, after.stderr).toBe(0);
    onTestFinished(() => void vi.unstubAllEnvs());
    for (const [name, value] of Object.entries(environment())) vi.stubEnv(name, value);
    const store = { endpoint: server.address };
    expect((await stateOf(place, { store })).run.state).toBe("successful");
    expect((await verify(place, { store })).damages).toEqual([]);
    expect(await Array.fromAsync(readResults(place, { store }))).toHaveLength(40);
    for (const file of objects("whole")) {
      expect(readFileSync(file, "utf8"), file).not.toMatch(/testsecret|testkey/);
    }
    expect(existsSync(join(folder, "home/spool"))).toBe(true);
    expect(readdirSync(join(folder, "home/spool"))).toEqual([]);
  });

  it("takes input, results file, cache and prepared prompts from the store as well", async () => {
    const at = (name: string) => `s3://${bucket}/far/${name}`;
    const piped = await pipedInto(["--output", at("first"), ...endpoint]);
    expect(piped.code, piped.stderr).toBe(0);
    const [spooled] = objects("far/first/_sluice").filter((it) => it.includes("stdin-"));
    const input = at(spooled!.slice(spooled!.indexOf("/far/") + "/far/".length));
    const kept = ["--cache", at("cache"), "--preparedDir", at("prepared"), ...endpoint];
    const job = ["run", "--input", input, ...asked, ...kept];
    const { code, stderr } = await sluice(...job, "--output", at("results.jsonl"));
    expect(code, stderr).toBe(0);
    const merged = readFileSync(join(server.directory, bucket, "far/results.jsonl"), "utf8");
    expect(merged.trim().split("\n")).toHaveLength(40);
    expect((await sluice("verify", at("results.jsonl"), ...endpoint)).code).toBe(0);
    const again = await sluice(...job, "--output", at("again"));
    expect(JSON.parse(again.stdout).prepared).toEqual({ hits: 40, misses: 0 });
  });

  it("does not take for input what runs made there, nor do later cuts", async () => {
    const at = (name: string) => `s3://${bucket}/mixed/${name}`;
    const cut = ["--shards", "2", ...endpoint];
    const first = await sluiceHere("shard", "rows.jsonl", "--output", at("rows"), ...cut);
    expect(first.code, first.stderr).toBe(0);
    const job = ["run", "--input", at("**/*.jsonl"), ...asked, ...endpoint];
    for (const [run, name] of ["one", "all.jsonl", "two"].entries()) {
      const { code, stdout, stderr } = await sluice(...job, "--output", at(name));
      expect([code, JSON.parse(stdout).rows.total], stderr).toEqual([0, 40]);
      if (run > 0) expect(stderr).toMatch(/\d+ files are left out of the input: runs made them/);
    }
    const again = await sluiceHere("shard", at("**/*.jsonl"), "--output", at("rows-again"), ...cut);
    expect(JSON.parse(again.stdout), again.stderr).toMatchObject({ inputFiles: 2, rows: 40 });
    expect(again.stderr).toMatch(/\d+ files are left out of the input: runs made them/);
    const named = await sluice(
      ...["run", "--input", at("one/part-*.jsonl"), ...asked, ...endpoint],
      ...["--output", "by-name"],
    );
    expect(JSON.parse(named.stdout).rows.total, named.stderr).toBe(40);
  });

  async function pipedInto(args: string[]) {
    const script = `cat rows.jsonl | "$0" "$@"`;
    const { spawnSync } = await import("node:child_process");
    const call = ["-c", script, process.execPath, sluiceProgram, "run", "--input", "-", ...asked];
    const env = { ...process.env, ...environment() };
    const end = spawnSync("sh", [...call, ...args], { cwd: folder, env, encoding: "utf8" });
    return { code: end.status, stderr: end.stderr };
  }

  it("is found by the commands that are printed, if only its job names the store", async () => {
    const place = (name: string) => `s3://${bucket}/named/${name}`;
    writeFileSync(join(folder, "named.yaml"), `store: { endpoint: "${server.address}" }\n`);
    const job = ["plan", "named.yaml", "--input", "rows.jsonl", ...asked, "--write"];
    const printed = async (...words: string[]) => {
      const { stdout, stderr } = await sluiceHere(...words);
      const commands = stdout.match(/sluice \w+ s3:[^,\n]*/g) ?? [];
      expect(commands.length, stdout + stderr).toBeGreaterThan(0);
      return commands.map((command) => command.split(" ").slice(1));
    };
    const [worker = [], share = [], status = []] = await printed(...job, place("out"));
    expect([worker[0], share[0], status[0]]).toEqual(["worker", "worker", "status"]);
    const [resume = [], again] = await printed(...status);
    expect([resume[0], again]).toEqual(["resume", worker]);
    const early = await sluiceHere("retry", place("out"), ...endpoint);
    expect(early.stderr).toContain(`finish the run first: sluice ${resume.join(" ")}\n`);
    const worked = await sluice(...worker);
    expect(worked.code, worked.stderr).toBe(0);
    const done = await sluice(...resume);
    expect(done.stderr).toContain("this run is finished");

    const weak = await printed(...job, place("weak"), "--store.conditional", "none");
    expect(weak.map(([verb]) => verb)).toEqual(["resume", "status"]);
    const alone = await sluice(...weak[0]!);
    expect(alone.code, alone.stderr).toBe(0);
  });

  it("is stopped by a cancel from elsewhere, and goes on", async () => {
    const place = `s3://${bucket}/canceled`;
    const slow = ["--model.latencyMs", "2000", "--model.capacity", "1", "--workers.max", "1"];
    const job = ["run", "--input", "rows.jsonl", ...asked, "--output", place, ...endpoint];
    const running = startSluice([...job, ...slow, "--json"], folder, environment());
    await running.workerStarted;
    const canceled = await sluice("cancel", place, ...endpoint);
    expect(canceled.stdout, canceled.stderr).toContain("stopped");
    expect((await running.ended).code).not.toBe(0);
    const quick = ["--model.latencyMs", "0", "--model.capacity", "1", "--workers.max", "1"];
    const end = await sluice(...job, ...quick, "--overwrite");
    expect(end.code, end.stderr).toBe(0);
  });

  it("goes on without conditional writes only as it was begun", async () => {
    const place = `s3://${bucket}/weak`;
    const weak = ["--store.conditional", "none"];
    const job = ["run", "--input", "rows.jsonl", ...asked, "--output", place, ...endpoint];
    const failing = ["--model.failures", '[{"row":3,"kind":"refused"}]'];
    expect((await sluice(...job, ...failing, ...weak)).code).toBe(1);
    const retry = ["retry", place, "--set", "model.failures=[]", ...endpoint];
    const refused = await sluiceHere(...job, ...failing);
    expect(refused.code).toBe(64);
    expect(refused.stderr).toContain("give --store.conditional none");
    // A retry has the store of its run's job.
    const retried = await sluice(...retry);
    expect(retried.code, retried.stderr).toBe(0);
    expect((await sluice("verify", place, ...endpoint)).stdout).toContain("40 rows");
  });

  it("says what is wrong with a store", async () => {
    const job = ["run", "--input", "rows.jsonl", ...asked];
    const missing = await sluiceHere(...job, "--output", "s3://no-such-bucket/out", ...endpoint);
    expect(missing.stderr).toContain("NoSuchBucket");
    expect(missing.code).toBe(74);
    const absent = await sluice("status", `s3://${bucket}/nothing`, ...endpoint);
    expect(absent.stderr).toContain("error NOT_A_RUN");
    const password = "http://user:testsecret2@127.0.0.1:1";
    const refused = await callHere(
      [...job, "--output", "s3://a-bucket/out", "--store.endpoint", password],
      folder,
    );
    expect(refused.stderr).toContain("holds credentials");
    expect(refused.stderr).not.toContain("testsecret2");
  });
});

describe("a run on this machine", () => {
  it("never loads the library of object stores", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-lazy-"));
    try {
      writeFileSync(join(folder, "rows.jsonl"), `${rows.join("\n")}\n`);
      const noted = join(folder, "loaded.txt");
      writeFileSync(
        join(folder, "note.mjs"),
        `import { appendFileSync } from "node:fs";
        import { registerHooks } from "node:module";
        registerHooks({ resolve(name, context, next) {
          if (/@aws-sdk|data\\/s3\\/sdk/.test(name)) appendFileSync(${JSON.stringify(noted)}, name);
          return next(name, context);
        } });`,
      );
      const { code, stderr } = await runSluice(
        ["run", "--input", "rows.jsonl", ...asked, "--output", "out"],
        folder,
        { NODE_OPTIONS: `--import=${join(folder, "note.mjs")}`, SLUICE_HOME: join(folder, "home") },
      );
      expect(code, stderr).toBe(0);
      expect(existsSync(noted)).toBe(false);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
