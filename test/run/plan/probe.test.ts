import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { assertBegunSo, probeStore } from "../../../src/run/plan/probe.ts";
import { changedStorage, errorOf, pathsOf } from "../run-fixture.ts";

describe("probeStore", () => {
  it("passes a store that lets one creator win, and leaves nothing behind", async () => {
    const storage = memoryStorage();
    await probeStore(storage, "a");
    expect(await pathsOf(storage)).toEqual([]);
  });

  it("refuses a store that ignores the condition", async () => {
    const storage = changedStorage(memoryStorage(), (inner) => ({
      async createIfAbsent(path, data) {
        await inner.replace(path, data);
        return "created";
      },
    }));
    const error = await errorOf(probeStore(storage, "a"));
    expect(error.code).toBe("STORE_UNSUITABLE");
    expect(error.message).toContain("21 of 21");
  });

  it("refuses a store that passes two writes in a row and fails the race", async () => {
    const storage = changedStorage(memoryStorage(), (inner) => ({
      async createIfAbsent(path, data) {
        if (await inner.stat(path)) return "exists";
        await new Promise((resolve) => setImmediate(resolve));
        await inner.replace(path, data);
        return "created";
      },
    }));
    expect(await storage.createIfAbsent("in-a-row", Buffer.from("1"))).toBe("created");
    expect(await storage.createIfAbsent("in-a-row", Buffer.from("2"))).toBe("exists");
    expect((await errorOf(probeStore(storage, "a"))).code).toBe("STORE_UNSUITABLE");
  });

  it("refuses a store that names one winner and keeps the record of another", async () => {
    const seen = new Set<string>();
    const storage = changedStorage(memoryStorage(), (inner) => ({
      async createIfAbsent(path, data) {
        const isFirst = !seen.has(path);
        seen.add(path);
        await inner.replace(path, data);
        return isFirst ? "created" : "exists";
      },
    }));
    const error = await errorOf(probeStore(storage, "a"));
    expect(error.code).toBe("STORE_UNSUITABLE");
    expect(error.message).toContain("1 of 21");
  });

  it("asks a store that refuses in one round only", async () => {
    const paths = new Set<string>();
    const storage = changedStorage(memoryStorage(), () => ({
      location: "s3://bucket/out",
      async createIfAbsent(path) {
        paths.add(path);
        throw new SluiceError("STORE_FAILED", "the credentials may not do this");
      },
    }));
    expect((await errorOf(probeStore(storage, "a"))).code).toBe("STORE_FAILED");
    expect(paths.size).toBe(1);
  });

  it("passes a store that never says exists but keeps the first", async () => {
    const storage = changedStorage(memoryStorage(), (inner) => ({
      async createIfAbsent(path, data) {
        const outcome = await inner.createIfAbsent(path, data);
        return outcome === "exists" ? "unclear" : outcome;
      },
    }));
    await expect(probeStore(storage, "a")).resolves.toBeUndefined();
  });

  it("refuses a store whose last writer wins whatever it says", async () => {
    const storage = changedStorage(memoryStorage(), (inner) => ({
      async createIfAbsent(path, data) {
        await inner.replace(path, data);
        return "unclear";
      },
    }));
    expect((await errorOf(probeStore(storage, "a"))).code).toBe("STORE_UNSUITABLE");
  });
});

describe("assertBegunSo", () => {
  const weak = { store: { conditional: "none" as const } };

  it("refuses to take the store of a run for a better one than it was begun with", async () => {
    const far = changedStorage(memoryStorage(), () => ({ location: "s3://bucket/out" }));
    expect(() => assertBegunSo(far, weak)).toThrow("store.conditional: none (s3://bucket/out)");
    expect(() => assertBegunSo({ ...far, createsOnce: false }, weak)).not.toThrow();
    expect(() => assertBegunSo(far, {})).not.toThrow();
    // A run on this machine has nothing to do with the store of its inputs.
    expect(() => assertBegunSo(memoryStorage(), weak)).not.toThrow();
  });
});
