import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../src/data/storage/memory.ts";
import { sleep, systemClock } from "../../src/foundation/clock.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import { storageConformance } from "../conformance/storage-conformance.ts";
import { faultyStorage, type StorageFault } from "./faulty-storage.ts";
import { SimulatedProcess } from "./simulated-process.ts";
import { drawStorageFault, fullDiskFault } from "./storage-faults.ts";
import { virtualClock } from "./virtual-clock.ts";

storageConformance("a faulty storage without faults", () =>
  faultyStorage(memoryStorage(), new SimulatedProcess(systemClock), () => undefined),
);

const data = Buffer.from("data");

function storageWith(fault: StorageFault) {
  const inner = memoryStorage();
  const clock = virtualClock();
  const process = new SimulatedProcess(clock);
  return { inner, clock, process, storage: faultyStorage(inner, process, () => ({ fault })) };
}

describe("faultyStorage", () => {
  it("refuses without an effect", async () => {
    const { inner, storage } = storageWith({ kind: "refuse", code: "STORE_FULL" });
    await expect(storage.replace("a", data)).rejects.toMatchObject({ code: "STORE_FULL" });
    expect(await inner.stat("a")).toBeUndefined();
  });

  it("loses the reply to what it did", async () => {
    for (const reply of ["unclear", "exists"] as const) {
      const { inner, storage } = storageWith({ kind: "lose-reply", reply });
      expect(await storage.createIfAbsent("a", data)).toBe(reply);
      expect(await inner.stat("a")).toBeDefined();
    }
    const { inner, storage } = storageWith({ kind: "lose-reply", reply: "error" });
    await expect(storage.publish("a", "b")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(storage.replace("a", data)).rejects.toMatchObject({ code: "STORE_FAILED" });
    expect(await inner.stat("a")).toBeDefined();
  });

  it("does nothing at a conflict", async () => {
    const { inner, storage } = storageWith({ kind: "conflict" });
    expect(await storage.createIfAbsent("a", data)).toBe("unclear");
    expect(await inner.stat("a")).toBeUndefined();
  });

  it("carries a late call out after its caller is dead", async () => {
    const { inner, clock, process, storage } = storageWith({ kind: "late", delayMs: 50 });
    expect(await storage.createIfAbsent("a", data)).toBe("unclear");
    process.kill();
    expect(await inner.stat("a")).toBeUndefined();
    await clock.run(sleep(clock, 60));
    expect(await inner.stat("a")).toBeDefined();
  });

  it("tears an append", async () => {
    const inner = memoryStorage();
    const process = new SimulatedProcess(virtualClock());
    const fault: StorageFault = { kind: "tear", share: 0.5, code: "STORE_FULL" };
    const storage = faultyStorage(inner, process, ({ method }) =>
      method === "append" ? { fault } : undefined,
    );
    const appender = await storage.appender("a");
    await expect(appender.append(data)).rejects.toMatchObject({ code: "STORE_FULL" });
    expect(Buffer.from(await inner.read("a")).toString()).toBe("da");
  });

  it("lets a kill fall between the effect and the reply", async () => {
    const inner = memoryStorage();
    const clock = virtualClock();
    const process = new SimulatedProcess(clock);
    const storage = faultyStorage(inner, process, () => ({ onEffect: () => process.kill() }));
    let hasReply = false;
    void storage.replace("a", data).then(() => {
      hasReply = true;
    });
    await clock.run(sleep(clock, 10));
    expect(await inner.stat("a")).toBeDefined();
    expect(hasReply).toBe(false);
    void storage.replace("b", data);
    await clock.run(sleep(clock, 10));
    expect(await inner.stat("b")).toBeUndefined();
  });
});

describe("drawn faults", () => {
  it("follow from the seed, and leave what cannot fail alone", () => {
    const draw = (seed: number) => {
      const random = seededRandom(seed);
      return Array.from({ length: 20 }, () =>
        drawStorageFault({ method: "createIfAbsent", path: "a" }, random),
      );
    };
    expect(draw(3)).toEqual(draw(3));
    expect(draw(3)).not.toEqual(draw(4));
    const random = seededRandom(1);
    expect(drawStorageFault({ method: "abort", path: "a" }, random)).toBeUndefined();
    expect(fullDiskFault({ method: "read", path: "a" }, random)).toBeUndefined();
    expect(fullDiskFault({ method: "append", path: "a" }, random)).toMatchObject({ kind: "tear" });
  });
});
