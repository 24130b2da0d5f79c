import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { createOnce, readJson, recordBytes } from "../../../src/run/directory/records.ts";
import { changedStorage, errorOf } from "../run-fixture.ts";

interface Named {
  id: string;
}

const idOf = ({ id }: Named) => id;
const path = "_sluice/record.json";

describe("createOnce", () => {
  it("wins where nothing stands", async () => {
    const storage = memoryStorage();
    const outcome = await createOnce(storage, path, { id: "a" }, idOf);
    expect(outcome).toEqual({ won: true, record: { id: "a" } });
    expect(await readJson(storage, path)).toEqual({ id: "a" });
  });

  it("loses to the record that stands, and says whose it is", async () => {
    const storage = memoryStorage();
    await createOnce(storage, path, { id: "a" }, idOf);
    const outcome = await createOnce(storage, path, { id: "b" }, idOf);
    expect(outcome).toEqual({ won: false, record: { id: "a" } });
  });

  it("wins where a store reports its own success as exists", async () => {
    const storage = changedStorage(memoryStorage(), (inner) => ({
      async createIfAbsent(to, data) {
        await inner.createIfAbsent(to, data);
        return "exists";
      },
    }));
    expect(await createOnce(storage, path, { id: "a" }, idOf)).toMatchObject({ won: true });
  });

  it.each(["throws", "is unclear"])(
    "reads back where a create %s after it was done",
    async (how) => {
      const storage = changedStorage(memoryStorage(), (inner) => ({
        async createIfAbsent(to, data) {
          await inner.createIfAbsent(to, data);
          if (how === "throws") throw new SluiceError("STORE_FAILED", "the reply was lost");
          return "unclear";
        },
      }));
      expect(await createOnce(storage, path, { id: "a" }, idOf)).toMatchObject({ won: true });
      const second = await createOnce(storage, path, { id: "b" }, idOf);
      expect(second).toEqual({ won: false, record: { id: "a" } });
    },
  );

  it("tries again where an unclear create did nothing", async () => {
    let calls = 0;
    const storage = changedStorage(memoryStorage(), (inner) => ({
      async createIfAbsent(to, data) {
        calls++;
        return calls < 3 ? "unclear" : inner.createIfAbsent(to, data);
      },
    }));
    expect(await createOnce(storage, path, { id: "a" }, idOf)).toMatchObject({ won: true });
    expect(calls).toBe(3);
  });

  it("tries again where the record could not be read back", async () => {
    let reads = 0;
    const storage = changedStorage(memoryStorage(), (inner) => ({
      async createIfAbsent(to, data) {
        await inner.createIfAbsent(to, data);
        return "unclear";
      },
      async read(from) {
        if (++reads === 1) throw new SluiceError("STORE_FAILED", "the connection broke");
        return inner.read(from);
      },
    }));
    expect(await createOnce(storage, path, { id: "a" }, idOf)).toMatchObject({ won: true });
    expect(reads).toBe(2);
  });

  it("gives up with the storage's error where it stays unclear", async () => {
    const storage = changedStorage(memoryStorage(), () => ({
      createIfAbsent: () => Promise.reject(new SluiceError("STORE_FAILED", "no route")),
    }));
    const error = await errorOf(createOnce(storage, path, { id: "a" }, idOf));
    expect(error.message).toContain("no route");
  });

  it("does not repeat a create on a full disk, and still reads back first", async () => {
    let calls = 0;
    let isDone = false;
    const storage = changedStorage(memoryStorage(), (inner) => ({
      async createIfAbsent(to, data) {
        calls++;
        if (isDone) await inner.createIfAbsent(to, data);
        throw new SluiceError("STORE_FULL");
      },
    }));
    const error = await errorOf(createOnce(storage, path, { id: "a" }, idOf));
    expect([error.code, calls]).toEqual(["STORE_FULL", 1]);
    isDone = true;
    expect(await createOnce(storage, path, { id: "a" }, idOf)).toMatchObject({ won: true });
  });

  it("never takes a torn record for its own or another's", async () => {
    const storage = memoryStorage();
    await storage.replace(path, recordBytes({ id: "a" }).subarray(0, 5));
    const error = await errorOf(createOnce(storage, path, { id: "a" }, idOf));
    expect(error.code).toBe("RUN_DAMAGED");
    expect(error.place.file).toBe(path);
  });

  it("lets exactly one of many creators win", async () => {
    const storage = memoryStorage();
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, n) => createOnce(storage, path, { id: `${n}` }, idOf)),
    );
    expect(outcomes.filter(({ won }) => won)).toHaveLength(1);
    expect(new Set(outcomes.map(({ record }) => record.id)).size).toBe(1);
  });
});

describe("readJson", () => {
  it("tells absence from failure", async () => {
    expect(await readJson(memoryStorage(), path)).toBeUndefined();
    const failing = changedStorage(memoryStorage(), () => ({
      read: () => Promise.reject(new SluiceError("STORE_FAILED")),
    }));
    expect((await errorOf(readJson(failing, path))).code).toBe("STORE_FAILED");
  });
});
