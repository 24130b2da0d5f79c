import { describe, expect, it } from "vitest";
import { removeAll } from "../../src/data/storage/remove-all.ts";
import type { Storage, StoredFile } from "../../src/data/storage/storage.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = async (storage: Storage, path: string): Promise<string> =>
  new TextDecoder().decode(await storage.read(path));

async function listed(storage: Storage, prefix: string): Promise<StoredFile[]> {
  const files: StoredFile[] = [];
  for await (const file of storage.list(prefix)) files.push(file);
  return files;
}

async function pathsOf(storage: Storage, prefix: string): Promise<string[]> {
  return (await listed(storage, prefix)).map((file) => file.path);
}

async function codeOf(action: Promise<unknown>): Promise<unknown> {
  try {
    await action;
    return "no error";
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
}

/**
 * Tests every promise of `Storage` on one implementation.
 *
 * @param makeStorage gives an empty storage, one a test; removing it is the caller's.
 * @example
 * storageConformance("memory", () => memoryStorage());
 */
export function storageConformance(
  name: string,
  makeStorage: () => Storage | Promise<Storage>,
): void {
  describe(`storage conformance: ${name}`, () => {
    readingClauses(makeStorage);
    objectClauses(makeStorage);
    removalClauses(makeStorage);
    listClauses(makeStorage);
    createClauses(makeStorage);
    appenderClauses(makeStorage);
    writerClauses(makeStorage);
    publishClauses(makeStorage);
  });
}

type Clauses = (make: () => Storage | Promise<Storage>) => void;

const readingClauses: Clauses = (make) => {
  it("reads what replace wrote, and its latest", async () => {
    const storage = await make();
    await storage.replace("a/b/c.json", bytes("first"));
    expect(await textOf(storage, "a/b/c.json")).toBe("first");
    await storage.replace("a/b/c.json", bytes("2"));
    expect(await textOf(storage, "a/b/c.json")).toBe("2");
    expect(await storage.stat("a/b/c.json")).toEqual({ path: "a/b/c.json", bytes: 1 });
  });

  it("says where it is", async () => {
    expect((await make()).location.length > 0).toBe(true);
  });

  it("keeps empty objects and any bytes", async () => {
    const storage = await make();
    const all = Uint8Array.from({ length: 256 }, (_, value) => value);
    await storage.replace("empty", bytes(""));
    await storage.replace("all", all);
    expect((await storage.read("empty")).length).toBe(0);
    expect([...(await storage.read("all"))]).toEqual([...all]);
  });

  it("names what is absent NOT_FOUND", async () => {
    const storage = await make();
    await storage.replace("a/b", bytes("1"));
    expect(await codeOf(storage.read("missing"))).toBe("NOT_FOUND");
    expect(await codeOf(storage.read("a/missing/deep"))).toBe("NOT_FOUND");
    expect(await codeOf(storage.open("missing"))).toBe("NOT_FOUND");
    expect(await codeOf(storage.publish("missing", "to"))).toBe("NOT_FOUND");
    expect(await storage.stat("missing")).toBe(undefined);
    expect(await storage.stat("a/missing/deep")).toBe(undefined);
    expect(await pathsOf(storage, "")).toEqual(["a/b"]);
  });
};

const objectClauses: Clauses = (make) => {
  it("takes no folder for an object", async () => {
    const storage = await make();
    await storage.replace("a/b", bytes("1"));
    expect(await storage.stat("a")).toBe(undefined);
  });

  it("reads at any place, less only at the end", async () => {
    const storage = await make();
    await storage.replace("digits", bytes("0123456789"));
    const reader = await storage.open("digits");
    const at = async (offset: number, length: number) =>
      new TextDecoder().decode(await reader.read(offset, length));
    expect(reader.bytes).toBe(10);
    expect(await at(0, 4)).toBe("0123");
    expect(await at(7, 3)).toBe("789");
    expect(await at(2, 1)).toBe("2");
    expect(await at(8, 100)).toBe("89");
    expect(await at(10, 5)).toBe("");
    expect(await at(20, 5)).toBe("");
    expect(await Promise.all([at(0, 2), at(4, 2)])).toEqual(["01", "45"]);
    await reader.close();
  });

  it("shares no bytes with its callers", async () => {
    const storage = await make();
    const data = bytes("kept");
    await storage.replace("a", data);
    data.fill(0);
    (await storage.read("a")).fill(0);
    expect(await textOf(storage, "a")).toBe("kept");
  });

  it("removes, and removing what is absent is fine", async () => {
    const storage = await make();
    await storage.replace("a/b", bytes("1"));
    await storage.remove("a/b");
    await storage.remove("a/b");
    await storage.remove("never/there");
    expect(await storage.stat("a/b")).toBe(undefined);
    expect(await pathsOf(storage, "")).toEqual([]);
    await storage.replace("a/b", bytes("2"));
    expect(await textOf(storage, "a/b")).toBe("2");
  });
};

const removalClauses: Clauses = (make) => {
  it("removes many, whatever they are, and leaves their neighbours", async () => {
    const storage = await make();
    const plain = Array.from({ length: 40 }, (_, at) => `a/${at}/plain-é-${at}.txt`);
    const grown = Array.from({ length: 40 }, (_, at) => `a/${at}/grown-é-${at}.jsonl`);
    const once = Array.from({ length: 20 }, (_, at) => `b/${at}.jsonl`);
    for (const path of [...plain, ...once]) await storage.replace(path, bytes(path));
    for (const path of grown) {
      const appender = await storage.appender(path, { isNew: true });
      await appender.append(bytes(path));
      await appender.close();
    }
    const isKept = (path: string) => path.includes("7");
    const all = [...plain, ...grown, ...once];
    await removeAll(storage, [...all.filter((path) => !isKept(path)), "never", "never.jsonl"]);
    const left = await pathsOf(storage, "");
    expect(left.toSorted()).toEqual(all.filter(isKept).toSorted());
    for (const path of left) expect(await textOf(storage, path)).toBe(path);
    await removeAll(storage, []);
    await removeAll(storage, left);
    expect(await pathsOf(storage, "")).toEqual([]);
    expect(await codeOf(storage.read(grown[7]!))).toBe("NOT_FOUND");
  });
};

const listClauses: Clauses = (make) => {
  // In the order of UTF-16 code units, in which "-" and "." come before "/".
  const stored = ["B", "a-b/x", "a.txt", "a/b", "a/b-c", "a/c/d/e", "ab", "b/1", "b/10", "b/2"];

  it("lists at any depth, sorted by path, with sizes", async () => {
    const storage = await make();
    for (const path of stored.toReversed()) await storage.replace(path, bytes(path));
    const expected = stored.map((path) => ({ path, bytes: path.length }));
    expect(await listed(storage, "")).toEqual(expected);
  });

  it("lists by any prefix, folder or part of a name", async () => {
    const storage = await make();
    for (const path of stored) await storage.replace(path, bytes("1"));
    for (const prefix of ["a", "a/", "a/b", "a/b-", "a/c/", "a/c/d/e", "b/1", "b/10", "a."]) {
      const expected = stored.filter((path) => path.startsWith(prefix));
      expect(await pathsOf(storage, prefix)).toEqual(expected);
    }
  });

  it("lists nothing where there is nothing", async () => {
    const storage = await make();
    expect(await pathsOf(storage, "")).toEqual([]);
    await storage.replace("a/b", bytes("1"));
    expect(await pathsOf(storage, "c")).toEqual([]);
    expect(await pathsOf(storage, "c/d/")).toEqual([]);
    expect(await pathsOf(storage, "a/b/c")).toEqual([]);
  });
};

const createClauses: Clauses = (make) => {
  it("creates once and leaves what exists alone", async () => {
    const storage = await make();
    expect(await storage.createIfAbsent("x/y.json", bytes("first"))).toBe("created");
    expect(await storage.createIfAbsent("x/y.json", bytes("second"))).toBe("exists");
    expect(await textOf(storage, "x/y.json")).toBe("first");
    expect(await pathsOf(storage, "")).toEqual(["x/y.json"]);
  });

  it("creates again after a removal", async () => {
    const storage = await make();
    await storage.createIfAbsent("a", bytes("1"));
    await storage.remove("a");
    expect(await storage.createIfAbsent("a", bytes("2"))).toBe("created");
    expect(await textOf(storage, "a")).toBe("2");
  });

  it("lets exactly one of 20 creators win, and losers read the winner whole", async () => {
    const storage = await make();
    for (let round = 0; round < 5; round++) {
      const path = `race/${round}`;
      const contents = Array.from({ length: 20 }, (_, creator) => `${creator} `.repeat(2000));
      const seen: string[] = [];
      const outcomes = await Promise.all(
        contents.map(async (content) => {
          const outcome = await storage.createIfAbsent(path, bytes(content));
          seen.push(await textOf(storage, path));
          return outcome;
        }),
      );
      const winners = outcomes.filter((outcome) => outcome === "created").length;
      const final = await textOf(storage, path);
      expect(winners <= 1).toBe(true);
      expect(winners === 1 || outcomes.includes("unclear")).toBe(true);
      const winner = outcomes.indexOf("created");
      expect(winner < 0 || contents[winner] === final).toBe(true);
      expect(contents.includes(final)).toBe(true);
      expect(seen.every((content) => content === final)).toBe(true);
    }
    expect((await pathsOf(storage, "race/")).length).toBe(5);
  });
};

const appenderClauses: Clauses = (make) => {
  it("lists what has an appender, before anything is appended", async () => {
    const storage = await make();
    const appender = await storage.appender("log/a.jsonl");
    expect(await pathsOf(storage, "log/")).toEqual(["log/a.jsonl"]);
    await appender.close();
    expect(await pathsOf(storage, "log/")).toEqual(["log/a.jsonl"]);
  });

  it("has what append resolved for, before the appender is closed", async () => {
    const storage = await make();
    const appender = await storage.appender("log/a.jsonl");
    await appender.append(bytes("one\n"));
    expect(await textOf(storage, "log/a.jsonl")).toBe("one\n");
    await appender.append(bytes("two\n"));
    await appender.sync();
    expect(await textOf(storage, "log/a.jsonl")).toBe("one\ntwo\n");
    await appender.close();
    expect(await textOf(storage, "log/a.jsonl")).toBe("one\ntwo\n");
  });

  it("adds to what is there", async () => {
    const storage = await make();
    await storage.replace("a.jsonl", bytes("old "));
    const appender = await storage.appender("a.jsonl");
    await appender.append(bytes("new"));
    await appender.close();
    expect(await textOf(storage, "a.jsonl")).toBe("old new");
  });

  it("keeps the order of appends that were not waited for", async () => {
    const storage = await make();
    const appender = await storage.appender("a.jsonl");
    const parts = Array.from({ length: 50 }, (_, part) => `${part},`.repeat(part * 20));
    await Promise.all(parts.map((part) => appender.append(bytes(part))));
    await appender.close();
    expect(await textOf(storage, "a.jsonl")).toBe(parts.join(""));
  });

  it("keeps the object, if only empty, where nobody needs what was appended", async () => {
    const storage = await make();
    const appender = await storage.appender("a.jsonl", { isNew: true });
    await appender.append(bytes("one\n"));
    await appender.close({ isNeeded: false });
    expect(await pathsOf(storage, "")).toEqual(["a.jsonl"]);
    expect("one\n".startsWith(await textOf(storage, "a.jsonl"))).toBe(true);
    await storage.remove("a.jsonl");
    expect(await pathsOf(storage, "")).toEqual([]);
  });
};

const writerClauses: Clauses = (make) => {
  it("shows an object only when its writer is closed, and then whole", async () => {
    const storage = await make();
    const writer = await storage.writer("part/1.jsonl");
    await writer.write(bytes("a".repeat(400_000)));
    await writer.write(bytes("b"));
    expect(await storage.stat("part/1.jsonl")).toBe(undefined);
    expect(await pathsOf(storage, "")).toEqual([]);
    await writer.close();
    expect(await textOf(storage, "part/1.jsonl")).toBe(`${"a".repeat(400_000)}b`);
    expect(await pathsOf(storage, "")).toEqual(["part/1.jsonl"]);
  });

  it("keeps the old object until the writer is closed", async () => {
    const storage = await make();
    await storage.replace("a", bytes("old"));
    const writer = await storage.writer("a");
    await writer.write(bytes("new"));
    expect(await textOf(storage, "a")).toBe("old");
    await writer.close();
    expect(await textOf(storage, "a")).toBe("new");
  });

  it("leaves nothing of an aborted writer", async () => {
    const storage = await make();
    const writer = await storage.writer("a/b");
    await writer.write(bytes("x".repeat(300_000)));
    await writer.abort();
    expect(await pathsOf(storage, "")).toEqual([]);
  });

  it("joins many small writes in order", async () => {
    const storage = await make();
    const writer = await storage.writer("a");
    const parts = Array.from(
      { length: 3000 },
      (_, part) => `line ${part} ${"x".repeat(part % 300)}\n`,
    );
    await Promise.all(parts.map((part) => writer.write(bytes(part))));
    await writer.close();
    expect(await textOf(storage, "a")).toBe(parts.join(""));
  });

  it("makes an empty object of no writes", async () => {
    const storage = await make();
    await (await storage.writer("a")).close();
    expect(await storage.stat("a")).toEqual({ path: "a", bytes: 0 });
  });
};

const publishClauses: Clauses = (make) => {
  it("makes the target what the source is, and keeps the source", async () => {
    const storage = await make();
    await storage.replace("attempts/1/part", bytes("rows"));
    await storage.publish("attempts/1/part", "out/part-0");
    expect(await textOf(storage, "out/part-0")).toBe("rows");
    expect(await textOf(storage, "attempts/1/part")).toBe("rows");
    await storage.remove("attempts/1/part");
    expect(await textOf(storage, "out/part-0")).toBe("rows");
  });

  it("replaces the target, also with itself, and leaves nothing else", async () => {
    const storage = await make();
    await storage.replace("from", bytes("new"));
    await storage.replace("to", bytes("old"));
    await storage.publish("from", "to");
    await storage.publish("from", "to");
    await storage.publish("from", "from");
    expect(await textOf(storage, "to")).toBe("new");
    expect(await pathsOf(storage, "")).toEqual(["from", "to"]);
  });

  it("leaves the published object alone when the source is replaced", async () => {
    const storage = await make();
    await storage.replace("from", bytes("1"));
    await storage.publish("from", "to");
    await storage.replace("from", bytes("2"));
    expect(await textOf(storage, "to")).toBe("1");
  });
};
