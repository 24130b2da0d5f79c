import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { localStorage } from "../../src/data/storage/local.ts";
import { memoryStorage } from "../../src/data/storage/memory.ts";
import { storageOpener } from "../../src/data/storage/open.ts";
import { SerialQueue } from "../../src/data/storage/serial-queue.ts";
import type { Leftover, Storage } from "../../src/data/storage/storage.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { systemRandom } from "../../src/foundation/random.ts";
import { storageConformance } from "../conformance/storage-conformance.ts";

let root = "";
let made = 0;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-storage-"));
});
afterAll(() => rm(root, { recursive: true, force: true }));
const newDirectory = () => join(root, `storage-${made++}`);

async function pathsOf(storage: Storage): Promise<string[]> {
  const paths: string[] = [];
  for await (const file of storage.list("")) paths.push(file.path);
  return paths;
}

async function leftoversOf(storage: Storage, prefix: string): Promise<Leftover[]> {
  const found: Leftover[] = [];
  for await (const leftover of storage.leftovers!(prefix)) found.push(leftover);
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

storageConformance("local", () => localStorage(newDirectory()));
storageConformance("local, not durable", () => localStorage(newDirectory(), { durable: false }));
storageConformance("memory", () => memoryStorage());

describe("localStorage", () => {
  it("leaves no temporary file behind and lists none that a dead process left", async () => {
    const directory = newDirectory();
    const storage = localStorage(directory);
    await storage.createIfAbsent("a", Buffer.from("1"));
    await storage.createIfAbsent("a", Buffer.from("2"));
    await storage.replace("a", Buffer.from("3"));
    await storage.publish("a", "b");
    await storage.publish("a", "b");
    const writer = await storage.writer("c");
    await writer.close();
    const aborted = await storage.writer("d");
    await aborted.abort();
    expect((await readdir(directory)).sort()).toEqual(["a", "b", "c"]);
    await writeFile(join(directory, ".tmp-left"), "torn");
    expect(await pathsOf(storage)).toEqual(["a", "b", "c"]);
  });

  it("names what a dead process left, with the time since then by its own clock", async () => {
    const directory = newDirectory();
    const storage = localStorage(directory);
    expect(await leftoversOf(storage, "")).toEqual([]);
    await storage.replace("x/part-0", Buffer.from("1"));
    const left = await storage.writer("x/part-1");
    await left.write(Buffer.alloc(300_000));
    const other = await storage.writer("y");
    await writeFile(join(directory, ".tmp-mine"), "no leftover of ours");
    const [first, second] = await leftoversOf(storage, "");
    expect([first?.path, second?.path]).toEqual([
      expect.stringMatching(/^\.tmp-[0-9a-f-]{36}-y$/),
      expect.stringMatching(/^x\/\.tmp-[0-9a-f-]{36}-part-1$/),
    ]);
    expect(second?.bytes).toBe(300_000);
    // What it holds may be old: only when it was made or changed counts.
    await utimes(join(directory, second!.path), 1, 1);
    const [touched] = await leftoversOf(storage, "x/part-1");
    expect(touched?.idleMs).toBeLessThan(3_600_000);
    expect(await leftoversOf(storage, "x/part-2")).toEqual([]);
    expect((await readdir(directory)).filter((name) => name.endsWith("clock"))).toEqual([]);
    for (const { path } of [first!, second!]) await storage.remove(path);
    expect(await leftoversOf(storage, "")).toEqual([]);
    for (const writer of [left, other]) await writer.abort();
  });

  it("names what was left of some files, and nothing beside or below them", async () => {
    const directory = newDirectory();
    const storage = localStorage(directory);
    const long = `deep/${"x".repeat(90)}.csv`;
    const paths = ["all.csv", "all.csv.gz", "all.csv.sluice/part-0", "other/all.csv", long];
    const writers = await Promise.all(paths.map((path) => storage.writer(path)));
    const found = async (...of: string[]) => {
      const leftovers = await Array.fromAsync(storage.leftoversOf!(of));
      return leftovers.map(({ path }) => path.replace(/\.tmp-[0-9a-f-]{36}-/, "")).sort();
    };
    expect(await found("all.csv", "absent/b.csv")).toEqual(["all.csv"]);
    expect(await found("other/all.csv", "other/b", long)).toEqual([
      `deep/${"x".repeat(64)}`,
      "other/all.csv",
    ]);
    expect(await found()).toEqual([]);
    for (const writer of writers) await writer.abort();
  });

  it("makes a directory again that was removed under it", async () => {
    const directory = newDirectory();
    const storage = localStorage(directory);
    await storage.replace("x/a", Buffer.from("1"));
    await rm(directory, { recursive: true });
    expect(await storage.createIfAbsent("x/a", Buffer.from("2"))).toBe("created");
    await rm(directory, { recursive: true });
    await (await storage.appender("x/b")).close();
    await storage.publish("x/b", "y/b");
    expect(await pathsOf(storage)).toEqual(["x/b", "y/b"]);
  });

  it("refuses a directory in which none can be made", async (context) => {
    context.skip(!existsSync("/proc/self"), "there is no /proc, which takes no names");
    const failed = localStorage("/proc/sluice/run").replace("a", Buffer.from("1"));
    await expect(failed).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("opens absolute paths from the root of the machine", async () => {
    const file = join(root, "input.txt");
    await writeFile(file, "text");
    const reader = await localStorage("/").open(file);
    expect(Buffer.from(await reader.read(1, 2)).toString()).toBe("ex");
    await reader.close();
  });

  it("publishes by a copy where no link can lead", async (context) => {
    context.skip(!existsSync("/dev/shm"), "there is no /dev/shm, a second file system");
    const directory = newDirectory();
    const far = await mkdtemp("/dev/shm/sluice-far-");
    try {
      const storage = localStorage(directory);
      await storage.replace("a", Buffer.from("1"));
      await symlink(far, join(directory, "far"));
      await storage.publish("a", "far/b");
      expect(Buffer.from(await storage.read("far/b")).toString()).toBe("1");
      expect(await readdir(far)).toEqual(["b"]);
    } finally {
      await rm(far, { recursive: true });
    }
  });

  it("names the file and the system's reason where it fails", async () => {
    const storage = localStorage(root);
    await storage.replace("plain", Buffer.from("1"));
    await expect(storage.replace("plain/below", Buffer.from("1"))).rejects.toMatchObject({
      code: "STORE_FAILED",
      message: expect.stringMatching(/(ENOTDIR|EEXIST).*plain/),
    });
    await expect(storage.open("")).rejects.toMatchObject({ code: "STORE_FAILED" });
  });

  it("calls a full disk STORE_FULL, from then on", async (context) => {
    context.skip(!existsSync("/dev/full"), "there is no /dev/full, a disk that is full");
    const appender = await localStorage("/dev", { durable: false }).appender("full");
    const full = { code: "STORE_FULL" };
    await expect(appender.append(Buffer.from("1"))).rejects.toMatchObject(full);
    await expect(appender.append(Buffer.from("2"))).rejects.toMatchObject(full);
    await appender.close();
  });
});

describe("SerialQueue", () => {
  it("runs nothing after a failure", async () => {
    const queue = new SerialQueue();
    const ran: number[] = [];
    const failing = queue.run(async () => {
      throw new Error("torn");
    });
    const next = queue.run(async () => ran.push(1));
    await expect(failing).rejects.toThrow("torn");
    await expect(next).rejects.toThrow("torn");
    expect(ran).toEqual([]);
  });
});

describe("storageOpener", () => {
  const environment = { AWS_ACCESS_KEY_ID: "key", AWS_SECRET_ACCESS_KEY: "secret" };
  const spoolDirectory = join(tmpdir(), "never-made");
  const context = { environment, clock: systemClock, random: systemRandom, spoolDirectory };
  const openStorage = storageOpener(context);

  it("opens paths and file URLs", () => {
    expect(openStorage(root).location).toBe(root);
    expect(openStorage(pathToFileURL(root).href).location).toBe(root);
    expect(openStorage("a:b").location).toBe(join(process.cwd(), "a:b"));
  });

  it("opens places in buckets, and asks nothing before it is used", () => {
    expect(openStorage("s3://bucket/a/b/").location).toBe("s3://bucket/a/b");
    expect(openStorage("S3://bucket").location).toBe("s3://bucket");
    expect(openStorage("gs://bucket/a").location).toBe("gs://bucket/a");
  });

  it("refuses other schemes by name, and places in no bucket", () => {
    expect(() => openStorage("ftp://host/a")).toThrow(
      expect.objectContaining({ code: "UNSUPPORTED", message: expect.stringContaining("ftp:") }),
    );
    expect(() => openStorage("s3:///a")).toThrow(expect.objectContaining({ code: "USAGE" }));
    expect(() => openStorage("r2://bucket/a")).toThrow(
      expect.objectContaining({ code: "ENV_MISSING" }),
    );
  });
});
