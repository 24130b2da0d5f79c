import fs, { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { localStorage } from "../../../src/data/storage/local.ts";
import { createOnce } from "../../../src/run/directory/records.ts";
import { probeStore } from "../../../src/run/plan/probe.ts";
import { errorOf } from "../../run/run-fixture.ts";

/** What the file system answers to link(); undefined = it makes the link. */
let refusal: string | undefined;
let links = 0;
/** Calls that make bytes or names lasting, in order. */
const calls: string[] = [];

const real = { link: fs.link, open: fs.open };
beforeAll(() => {
  const link: typeof real.link = async (from, to) => {
    links++;
    calls.push("link");
    if (refusal === undefined) return real.link(from, to);
    throw Object.assign(new Error(`${refusal}: no link`), { code: refusal, errno: -1 });
  };
  const open: typeof real.open = async (path, ...rest) => {
    const handle = await real.open(path, ...rest);
    const isFolder = (await handle.stat()).isDirectory();
    const sync = handle.sync.bind(handle);
    handle.sync = async () => {
      await sync();
      calls.push(isFolder ? "sync of the folder" : "sync of the file");
    };
    return handle;
  };
  replaceCalls({ link, open });
});
afterAll(() => replaceCalls(real));

/** Named imports of Node's module follow, in modules that have been imported as well. */
function replaceCalls(others: typeof real): void {
  Object.assign(fs, others);
  syncBuiltinESMExports();
}

async function storageThat(refuses: string | undefined) {
  const directory = await mkdtemp(join(tmpdir(), "sluice-links-"));
  onTestFinished(async () => {
    refusal = undefined;
    await rm(directory, { recursive: true });
  });
  refusal = refuses;
  links = 0;
  return { directory, storage: localStorage(directory) };
}

describe("localStorage on a file system without hard links", () => {
  it.each(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EXDEV", "EMLINK"])(
    "refuses to create where link gives %s, and leaves nothing",
    async (code) => {
      const { directory, storage } = await storageThat(code);
      const error = await errorOf(storage.createIfAbsent("a.json", Buffer.from("1")));
      expect(error).toMatchObject({ code: "STORE_UNSUITABLE", scope: "run", retryable: false });
      expect(error.message).toContain(`link gives ${code}`);
      expect(error.place.file).toBe(join(directory, "a.json"));
      expect(await readdir(directory)).toEqual([]);
    },
  );

  it("is refused by a record that wants one creator, at once", async () => {
    const { storage } = await storageThat("EPERM");
    const record = createOnce(storage, "plan.json", { id: "a" }, ({ id }) => id);
    expect((await errorOf(record)).code).toBe("STORE_UNSUITABLE");
    expect(links).toBe(1);
  });

  it("is refused by the probe", async () => {
    const { storage } = await storageThat("EPERM");
    expect((await errorOf(probeStore(storage, "x"))).code).toBe("STORE_UNSUITABLE");
  });

  it("publishes by a copy", async () => {
    const { directory, storage } = await storageThat("EPERM");
    await storage.replace("a", Buffer.from("1"));
    await storage.publish("a", "b");
    expect(await readFile(join(directory, "b"), "utf8")).toBe("1");
    expect((await readdir(directory)).sort()).toEqual(["a", "b"]);
  });
});

describe("localStorage", () => {
  it("links a record once its bytes are on the disk, and then syncs the name", async () => {
    const { storage } = await storageThat(undefined);
    await storage.createIfAbsent("first", Buffer.from("1"));
    calls.length = 0;
    await storage.createIfAbsent("second", Buffer.from("1"));
    expect(calls).toEqual(["sync of the file", "link", "sync of the folder"]);
  });
});

describe("localStorage where link() fails in other ways", () => {
  it("does not tell who won, and a full disk is named", async () => {
    const { storage } = await storageThat("EIO");
    expect(await storage.createIfAbsent("a", Buffer.from("1"))).toBe("unclear");
    refusal = "ENOSPC";
    const error = await errorOf(storage.createIfAbsent("a", Buffer.from("1")));
    expect(error.code).toBe("STORE_FULL");
  });
});
