import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { withFileLock } from "../../../src/engines/models/file-lock.ts";
import { systemClock as clock } from "../../../src/foundation/clock.ts";
import { systemRandom as random } from "../../../src/foundation/random.ts";
import { MountView } from "../../../src/run/programs/mount-view.ts";
import { ObjectCache, objectName } from "../../../src/run/programs/object-cache.ts";
import { localInputs } from "../../local-inputs.ts";

const never = new AbortController().signal;

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-objects-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe("the name of an object", () => {
  it("is what follows its place, and one that a folder has otherwise is refused", () => {
    expect(objectName("s3://bkt/in/", "s3://bkt/in/a/b")).toBe("a/b");
    expect(objectName("s3://bkt", "s3://bkt/a")).toBe("a");
    expect(objectName("S3://bkt//in", "s3://bkt/in/a/b")).toBe("a/b");
    expect(objectName("/in/../in", "/in/a/b")).toBe("a/b");
    expect(objectName("s3://bkt/in", "s3://bkt/in/a/")).toBeUndefined();
    for (const key of ["a//b", "/a", "a/./b", "../b", "a/../b", "a\0"]) {
      expect(() => objectName("s3://bkt/in", `s3://bkt/in/${key}`)).toThrow(
        "cannot be the name of a file",
      );
    }
  });
});

describe("copies of a mount's objects", () => {
  it("have the bytes of the objects, and wait for no other process once all are here", async () => {
    const [place, folder] = [temporaryFolder(), temporaryFolder()];
    writeFileSync(join(place, "a.txt"), "one");
    writeFileSync(join(place, "empty"), "");
    const cache = new ObjectCache(place, { inputs: localInputs, clock, random, folder });
    const objects = await cache.objects(never);
    expect(objects.map(({ name, bytes }) => [name, bytes])).toEqual([
      ["a.txt", 3],
      ["empty", 0],
    ]);
    expect(objects.map(({ file }) => readFileSync(file, "utf8"))).toEqual(["one", ""]);
    const lock = join(folder, `${readdirSync(folder)[0]!}.lock`);
    await withFileLock(lock, { clock, random }, async () => {
      expect(await cache.objects(never)).toEqual(objects);
    });
  });

  it("are fetched again if an object has changed", async () => {
    const [place, folder] = [temporaryFolder(), temporaryFolder()];
    writeFileSync(join(place, "a.txt"), "one");
    const cache = new ObjectCache(place, { inputs: localInputs, clock, random, folder });
    await cache.objects(never);
    writeFileSync(join(place, "a.txt"), "another");
    const [object] = await cache.objects(never);
    expect([object!.bytes, readFileSync(object!.file, "utf8")]).toEqual([7, "another"]);
  });

  it("are not written through where two of their names are one file", async () => {
    const [place, folder, view] = [temporaryFolder(), temporaryFolder(), temporaryFolder()];
    writeFileSync(join(place, "a.txt"), "whole");
    const cache = new ObjectCache(place, { inputs: localInputs, clock, random, folder });
    const [object] = await cache.objects(never);
    const twice = [object!, { ...object!, file: join(place, "a.txt") }];
    const doubled = { objects: async () => twice } as unknown as ObjectCache;
    await expect(MountView.open(view, doubled, never)).rejects.toThrow("EEXIST");
  });

  it.each([
    ["other", "a program that failed"],
    ["a longer text", "one that was killed"],
  ])("are whole for the next try, whatever a program wrote into one (%s)", async (text) => {
    const [place, folder, tries] = [temporaryFolder(), temporaryFolder(), temporaryFolder()];
    writeFileSync(join(place, "a.txt"), "whole");
    const cache = new ObjectCache(place, { inputs: localInputs, clock, random, folder });
    const view = await MountView.open(join(tries, "1"), cache, never);
    const file = join(view.folder, "a.txt");
    // As root in its namespace may do.
    chmodSync(file, 0o644);
    writeFileSync(file, text);
    const next = await MountView.open(join(tries, "2"), cache, never);
    expect(readFileSync(join(next.folder, "a.txt"), "utf8")).toBe("whole");
    expect(await next.results()).toEqual([]);
    expect(await view.results()).toMatchObject([{ name: "a.txt", bytes: text.length }]);
  });
});
