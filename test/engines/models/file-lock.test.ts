import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isProcessGone, processMark, withFileLock } from "../../../src/engines/models/file-lock.ts";
import type { Clock } from "../../../src/foundation/clock.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { modelContext, temporaryFolder } from "./context.ts";

describe("withFileLock", () => {
  it("lets one at a time in", async () => {
    const context = await modelContext();
    const path = join(context.homeDirectory, "a", "x.lock");
    let inside = 0;
    let turns = 0;
    const work = () =>
      withFileLock(path, context, async () => {
        expect(++inside).toBe(1);
        await new Promise((resolve) => setImmediate(resolve));
        inside--;
        turns++;
      });
    await Promise.all(Array.from({ length: 8 }, work));
    expect(turns).toBe(8);
    expect(await readdir(join(context.homeDirectory, "a"))).toEqual([]);
  });

  it("leaves a lock alone that another one has taken over", async () => {
    const context = await modelContext();
    const path = join(context.homeDirectory, "x.lock");
    await withFileLock(path, context, () => writeFile(path, '{"id":"elsewhere"}'));
    await access(path);
  });

  it("frees the lock when the action throws", async () => {
    const context = await modelContext();
    const path = join(context.homeDirectory, "x.lock");
    const failing = withFileLock(path, context, () => Promise.reject(new Error("no")));
    await expect(failing).rejects.toThrow("no");
    await expect(withFileLock(path, context, async () => "next")).resolves.toBe("next");
  });

  it("waits for a holder it knows nothing of until its file stood still long enough", async () => {
    const path = join(await temporaryFolder(), "x.lock");
    await writeFile(path, '{"id":"elsewhere"}');
    // Time passes only while somebody waits, so the wait itself is what is measured.
    let nowMs = 0;
    const clock: Clock = {
      now: () => nowMs,
      monotonic: () => nowMs,
      schedule(delayMs, callback) {
        // The holder's own touches come after minutes here: it is done by then.
        if (delayMs >= 2000) return () => {};
        nowMs += delayMs;
        setImmediate(callback);
        return () => {};
      },
    };
    let waits = 0;
    const onWait = () => waits++;
    await withFileLock(path, { clock, random: seededRandom(1), onWait }, async () => {
      expect(nowMs).toBeGreaterThanOrEqual(10_000);
    });
    expect(waits).toBe(1);
    await expect(access(path)).rejects.toThrow();
  });

  it("takes over at once from a process that is gone", async (linux) => {
    linux.skip(process.platform !== "linux", "needs /proc");
    const context = await modelContext();
    const path = join(context.homeDirectory, "x.lock");
    const [boot, space] = (await processMark())!.split(" ");
    await writeFile(path, JSON.stringify({ id: "dead", mark: `${boot} ${space} 4194303 1` }));
    let waited = false;
    const onWait = () => {
      waited = true;
    };
    await withFileLock(path, { ...context, onWait }, async () => {});
    expect(waited).toBe(false);
  });

  it("gives up when its signal is aborted", async () => {
    const context = await modelContext();
    const path = join(context.homeDirectory, "x.lock");
    await writeFile(path, '{"id":"elsewhere"}');
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(withFileLock(path, { ...context, signal }, async () => {})).rejects.toThrow(
      "enough",
    );
  });
});

describe("processMark", () => {
  it("tells a living process from a dead one", async (linux) => {
    linux.skip(process.platform !== "linux", "needs /proc");
    const own = (await processMark())!;
    expect(await isProcessGone(own)).toBe(false);
    const child = spawn("true");
    const mark = own.replace(/ \d+ \d+$/, ` ${child.pid} 1`);
    await once(child, "close");
    expect(await isProcessGone(mark)).toBe(true);
  });

  it("knows nothing of other machines", async () => {
    expect(await isProcessGone("another-boot pid:[1] 1 1")).toBe(false);
    expect(await isProcessGone(undefined)).toBe(false);
  });
});
