import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { cp, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { openS3Bucket } from "../../src/data/s3/open.ts";
import { inputStores } from "../../src/data/sources/open.ts";
import { upload } from "../../src/data/transfer/upload.ts";
import { pause } from "../chaos/sluice-process.ts";
import { fileListener, numberedText, webServer } from "../data/sources/web-server.ts";
import { temporaryFolder } from "../engines/models/context.ts";
import { S3Proxy } from "../s3-proxy.ts";
import { bucket, missingS3Server, S3Server } from "../s3-server.ts";
import { sluiceProgram } from "../sluice-program.ts";

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Starts a command as a shell does. */
function start(folder: string, environment: Record<string, string>, args: readonly string[]) {
  const { PATH = "" } = process.env;
  const child: ChildProcess = spawn(process.execPath, [sluiceProgram, ...args], {
    cwd: folder,
    env: { PATH, HOME: folder, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended: Ended = { code: null, stdout: "", stderr: "" };
  child.stdout!.on("data", (chunk) => {
    ended.stdout += chunk;
  });
  child.stderr!.on("data", (chunk) => {
    ended.stderr += chunk;
  });
  const whole = once(child, "close").then(([code]): Ended => ({ ...ended, code }));
  return { child, whole };
}

const call = (folder: string, environment: Record<string, string>, ...args: string[]) =>
  start(folder, environment, args).whole;

const lastLine = (text: string) => JSON.parse(text.trimEnd().split("\n").at(-1)!);

const rowsOf = (from: number, count: number) =>
  Buffer.from(
    Array.from(
      { length: count },
      (_, at) => `{"id":${from + at},"text":"row ${from + at}"}\n`,
    ).join(""),
  );

/** Every file below a folder as one text. */
async function allText(folder: string): Promise<string> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile());
  const texts = files.map((entry) => readFile(join(entry.parentPath, entry.name), "latin1"));
  return (await Promise.all(texts)).join("\n");
}

const askAll = ["--model", "fake", "--prompt", "Say {{ text }}", "--set", "shard.rows=100"];

describe("a run over files of web servers and of the hub", () => {
  it("answers every row, resumes, and keeps no token anywhere", async () => {
    const token = "hf_dontwritethisdown";
    const [plain, ranged] = [rowsOf(0, 250), rowsOf(250, 250)];
    const [whole, byRanges] = [{ hasRanges: false }, {}].map((serving) =>
      fileListener(
        () => (serving.hasRanges === false ? plain : ranged),
        () => serving,
      ),
    ) as [RequestListener, RequestListener];
    const oid = "a".repeat(40);
    const hub = await webServer((request, response) => {
      if (request.headers.authorization !== `Bearer ${token}`) {
        return void response.writeHead(401).end();
      }
      if (request.url?.startsWith("/api/datasets/o/n/tree/main")) {
        const size = ranged.length;
        return void response.end(
          JSON.stringify([{ type: "file", path: "data/b.jsonl", oid, size }]),
        );
      }
      byRanges(request, response);
    });
    const web = await webServer((request, response) => {
      if (request.url !== "/batches/0.txt") return whole(request, response);
      const list = "../a.jsonl\nhf://datasets/o/n/data/*.jsonl\n";
      response.writeHead(200, { "content-length": list.length }).end(list);
    });
    const folder = await temporaryFolder();
    const environment = { HF_ENDPOINT: hub.origin, HF_TOKEN: token };
    const run = ["run", "--input-list", `${web.origin}/batches/0.txt`, ...askAll, "--json"];
    const first = await call(folder, environment, ...run);
    expect(first.code, first.stderr).toBe(0);
    expect(lastLine(first.stdout).rows).toMatchObject({ total: 500, answered: 500 });
    const results = await call(folder, environment, "results", "out");
    expect(
      results.stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line).id),
    ).toEqual(Array.from({ length: 500 }, (_, at) => at));
    const again = await call(folder, environment, ...run);
    expect(again.code, again.stderr).toBe(0);
    expect((await call(folder, environment, "verify", "out")).code).toBe(0);
    const written = await allText(join(folder, "out"));
    const refused = await call(folder, { ...environment, HF_TOKEN: "hf_wrong" }, ...run);
    expect(refused.code).not.toBe(0);
    for (const text of [written, ...[first, again, refused].flatMap(Object.values)]) {
      expect(String(text)).not.toContain(token);
      expect(String(text)).not.toContain("hf_wrong");
    }
    expect(written).toContain('"etag":"aaaaaaaaaa');
  });

  it("tells of faulty rows without the query of an address: it may be signed", async () => {
    const rows = Buffer.from('{"id":1,"text":"one"}\nno JSON\n{"id":3}\n');
    const { origin } = await webServer(fileListener(() => rows));
    const folder = await temporaryFolder();
    const job = ["--input", `${origin}/a.jsonl?signature=s1gned`, ...askAll];
    const planned = await call(folder, {}, "plan", ...job, "--json");
    expect(planned.stdout).toContain(`${origin}/a.jsonl`);
    const run = await call(folder, {}, "run", ...job, "--json");
    expect(lastLine(run.stdout).rows).toMatchObject({ answered: 1, failed: 2 });
    const letters = await call(folder, {}, "results", "out", "--failed");
    expect(letters.stdout).toContain(`(${origin}/a.jsonl:2)`);
    const manifest = await readFile(join(folder, "out/_manifest.json"), "utf8");
    const events = await allText(join(folder, "out/_sluice/events"));
    const attempts = await allText(join(folder, "out/_sluice/attempts"));
    const told = [planned, run, letters].flatMap(({ stdout, stderr }) => [stdout, stderr]);
    for (const text of [...told, manifest, events, attempts]) {
      expect(text).not.toContain("s1gned");
    }
  });

  it("stops where a file changed after it was planned", async () => {
    let etag = '"one"';
    const rows = rowsOf(0, 300);
    const { origin } = await webServer((request, response) =>
      fileListener(
        () => rows,
        () => ({ etag }),
      )(request, response),
    );
    const folder = await temporaryFolder();
    const job = ["--input", `${origin}/a.jsonl`, ...askAll];
    expect((await call(folder, {}, "plan", ...job, "--write", "out")).code).toBe(0);
    etag = '"two"';
    const worker = await call(folder, {}, "worker", "out", "--tasks", "0-2");
    expect(worker.stderr).toContain("INPUT_CHANGED");
    const run = await call(folder, {}, "run", ...job);
    expect(run.code).toBe(65);
    expect(run.stderr).toContain("INPUT_CHANGED");
  });
});

describe("files in an object store", () => {
  beforeEach((context) => context.skip(missingS3Server !== undefined, missingS3Server));

  let server: S3Server;
  beforeAll(async () => {
    if (missingS3Server === undefined) server = await S3Server.start();
  });
  afterAll(() => server?.stop());

  it("are read by globs and lists; the secret stands nowhere", async () => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, "in/deep"), { recursive: true });
    await writeFile(join(folder, "in/a.jsonl"), rowsOf(0, 200));
    await writeFile(join(folder, "in/deep/b.jsonl"), rowsOf(200, 200));
    await writeFile(join(folder, "in/list.txt"), "/mnt/deep/b.jsonl\n");
    const far = server.location("read");
    const uploaded = await call(folder, server.environment, "upload", "in", far);
    expect(lastLine(uploaded.stdout)).toMatchObject({ files: 3 });
    const list = { path: `${far}/list.txt`, list: true, prefixes: { "/mnt/": `${far}/` } };
    const input = [{ path: `${far}/*.jsonl` }, list];
    await writeFile(join(folder, "job.json"), JSON.stringify({ input }));
    const run = await call(folder, server.environment, "run", "-c", "job.json", ...askAll);
    expect(run.code, run.stderr).toBe(0);
    expect(lastLine(run.stdout).rows).toMatchObject({ total: 400, answered: 400 });
    const written = await allText(join(folder, "out"));
    expect(written + run.stderr + run.stdout).not.toContain("testsecret");
    const listed = await call(folder, server.environment, "ls", "--json", far);
    expect(lastLine(listed.stdout).files).toBe(3);
  });

  it("that are replaced are refused, before and while they are read", async () => {
    const stores = server.context();
    const inputs = inputStores({ ...stores, temporaryDirectory: server.directory });
    const path = server.location("replaced.jsonl");
    const replace = (data: Buffer) => openS3Bucket(path, stores).put("replaced.jsonl", data);
    await replace(rowsOf(0, 100_000));
    const [found] = await inputs.expand([{ path, maxLineBytes: 1000 }], "/");
    const reader = await inputs.open(path, { etag: found!.etag });
    await reader.read(0, 10);
    await replace(rowsOf(1, 100_000));
    await expect(reader.read(2_000_000, 10)).rejects.toMatchObject({ code: "INPUT_CHANGED" });
    // Who opened it before does not look again, and is refused when it reads.
    const again = await inputs.open(path, { etag: found!.etag });
    await expect(again.read(0, 10)).rejects.toMatchObject({ code: "INPUT_CHANGED" });
    const others = inputStores({ ...stores, temporaryDirectory: server.directory });
    await expect(others.open(path, { etag: found!.etag })).rejects.toMatchObject({
      code: "INPUT_CHANGED",
    });
  });

  it("are uploaded and downloaded on after kill -9, byte for byte", async () => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, "up/deep"), { recursive: true });
    for (let at = 0; at < 30; at++) {
      await writeFile(join(folder, `up/deep/${at}.txt`), numberedText(50_000 + at));
    }
    await writeFile(join(folder, "up/big.bin"), numberedText(20_000_000));
    let isStalling = true;
    const proxy = await S3Proxy.start({
      ...{ server: server.address, latencyMs: 30 },
      fault: ({ url }) => (isStalling && url.includes("big.bin") ? "stall" : undefined),
    });
    onTestFinished(() => proxy.stop());
    const environment = { ...server.environment, AWS_ENDPOINT_URL_S3: proxy.address };
    const far = server.location("moved");

    const uploading = start(folder, environment, ["upload", "up", far]);
    const arrived = join(server.directory, bucket, "moved/deep/0.txt");
    while (!existsSync(arrived) && uploading.child.exitCode === null) await pause(5);
    uploading.child.kill("SIGKILL");
    expect(await uploading.whole).toMatchObject({ code: null, stdout: "" });
    isStalling = false;
    const rest = lastLine((await call(folder, environment, "upload", "up", far)).stdout);
    expect(rest.skippedFiles).toBeGreaterThan(0);
    expect(rest.files + rest.skippedFiles).toBe(31);

    isStalling = true;
    const download = start(folder, environment, ["download", far, "down"]);
    const down = join(folder, "down");
    const hasPart = async () =>
      existsSync(down) && (await readdir(down)).some((name) => name.startsWith("big.bin."));
    while (!(await hasPart()) && download.child.exitCode === null) await pause(5);
    download.child.kill("SIGKILL");
    expect(await download.whole).toMatchObject({ code: null });
    isStalling = false;
    const last = await call(folder, environment, "download", far, "down");
    expect(last.code, last.stderr).toBe(0);
    const names = (await readdir(join(folder, "up"), { recursive: true })).sort();
    expect((await readdir(down, { recursive: true })).sort()).toEqual(names);
    expect(await allText(down)).toBe(await allText(join(folder, "up")));
  });

  it("of large size are uploaded on from the parts that are there", async () => {
    const folder = await temporaryFolder();
    const path = join(folder, "large.bin");
    const content = numberedText(40_000_000);
    await writeFile(path, content);
    const puts: string[] = [];
    const proxy = await S3Proxy.start({
      server: server.address,
      fault: ({ method, url }) => void (method === "PUT" && puts.push(url)),
    });
    onTestFinished(() => proxy.stop());
    const context = () => {
      const stores = server.context(proxy.address);
      return { stores, inputs: inputStores({ ...stores, temporaryDirectory: folder }) };
    };
    const target = server.location("large/large.bin");
    const stop = new AbortController();
    const stopping = upload(path, target, context(), {
      overwrite: false,
      signal: stop.signal,
      onProgress: ({ bytes }) => bytes > 30_000_000 && stop.abort(new Error("stopped")),
    });
    await expect(stopping).rejects.toThrow("stopped");
    const far = openS3Bucket(target, server.context());
    const [open] = await far.uploads("large/large.bin");
    const storedParts = () => far.parts("large/large.bin", open!.uploadId);
    while ((await storedParts())[0]?.number !== 1) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    puts.length = 0;
    const summary = await upload(path, target, context(), {
      overwrite: false,
      signal: new AbortController().signal,
      onProgress() {},
    });
    expect(summary).toMatchObject({ files: 1, bytes: content.length });
    expect(puts.filter((url) => url.includes("partNumber=5&"))).toHaveLength(1);
    expect(puts.filter((url) => url.includes("partNumber=1&"))).toEqual([]);
    const stored = await readFile(join(server.directory, bucket, "large/large.bin"));
    expect(Buffer.compare(stored, content)).toBe(0);
  });

  it("that change while they are uploaded are not uploaded, and all others are", async () => {
    const folder = await temporaryFolder();
    const path = join(folder, "log.txt");
    await writeFile(path, numberedText(3_000_000));
    await writeFile(join(folder, "other.txt"), "other");
    const stores = server.context();
    const inputs = inputStores({ ...stores, temporaryDirectory: folder });
    const onProgress = ({ bytes }: { bytes: number }) => {
      if (bytes > 1_000_000) writeFileSync(path, numberedText(3_000_000).reverse());
    };
    const { signal } = new AbortController();
    const options = { overwrite: false, signal, onProgress };
    const summary = await upload(folder, server.location("log"), { inputs, stores }, options);
    expect(summary).toMatchObject({ files: 1, failedFiles: 1 });
    expect(summary.failures[0]).toMatchObject({ code: "INPUT_CHANGED" });
    expect(await readdir(join(server.directory, bucket, "log"))).toEqual(["other.txt"]);
  });

  it("of odd names come back as they were", async () => {
    const folder = await temporaryFolder();
    const names = ["ü é %20+&?#.txt", "two\nlines", "back\\slash", "..dots/.hidden", "A", "a"];
    for (const name of names) {
      await mkdir(dirname(join(folder, "up", name)), { recursive: true });
      await writeFile(join(folder, "up", name), name);
    }
    await symlink("nowhere", join(folder, "up/dangling"));
    const far = server.location("odd");
    const uploaded = await call(folder, server.environment, "upload", "up", far);
    expect(lastLine(uploaded.stdout)).toMatchObject({ files: names.length, leftOut: 1 });
    expect(uploaded.stderr).toContain("1 name left out");
    const downloaded = await call(folder, server.environment, "download", far, "down");
    expect(downloaded.code, downloaded.stderr).toBe(0);
    for (const name of names) {
      expect(await readFile(join(folder, "down", name), "utf8")).toBe(name);
    }
    const elsewhere = await call(folder, server.environment, "upload", far, `${far}-2`);
    expect(elsewhere.stderr).toContain("not a place on this machine");
  });

  it("of other content are left alone, and nothing is deleted", async () => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, "up"));
    await writeFile(join(folder, "up/a.txt"), "one");
    await writeFile(join(folder, "up/b.txt"), "b");
    const far = server.location("kept");
    await call(folder, server.environment, "upload", "up", far);
    await writeFile(join(folder, "up/a.txt"), "two");
    await cp(join(folder, "up/b.txt"), join(folder, "up/c.txt"));
    const second = await call(folder, server.environment, "upload", "up", far);
    expect(second.code).toBe(64);
    expect(second.stderr).toContain("TARGET_DIFFERS");
    expect(lastLine(second.stdout)).toMatchObject({ files: 1, skippedFiles: 1, differentFiles: 1 });
    const stored = join(server.directory, bucket, "kept");
    expect(await readFile(join(stored, "a.txt"), "utf8")).toBe("one");
    const third = await call(folder, server.environment, "upload", "up", far, "--overwrite");
    expect(third.code, third.stderr).toBe(0);
    expect(await readFile(join(stored, "a.txt"), "utf8")).toBe("two");
    const single = await call(folder, server.environment, "upload", "up/a.txt", `${far}/x/y.txt`);
    expect(lastLine(single.stdout)).toMatchObject({ files: 1 });
    expect(await readFile(join(stored, "x/y.txt"), "utf8")).toBe("two");
  });
});
