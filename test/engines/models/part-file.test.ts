import { readdirSync, readlinkSync } from "node:fs";
import { access, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  discardPart,
  fileBytes,
  hashFiles,
  isGguf,
  PartFile,
} from "../../../src/engines/models/part-file.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { temporaryFolder } from "./context.ts";

describe("PartFile", () => {
  it("is the sum of its pieces, however they were split over tries", async () => {
    const path = join(await temporaryFolder(), "a.part");
    const tries = fc.array(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 4 }), {
      maxLength: 4,
    });
    await fc.assert(
      fc.asyncProperty(tries, async (pieces) => {
        await discardPart(path);
        for (const chunks of pieces) {
          const part = await PartFile.open(path, () => {});
          for (const chunk of chunks) await part.append(chunk);
          await part.close();
        }
        const whole = Buffer.concat(pieces.flat());
        const part = await PartFile.open(path, () => {});
        expect(part.bytes).toBe(whole.length);
        expect(part.sha256).toBe(sha256Hex(whole));
        await part.close();
      }),
      { numRuns: 30 },
    );
  });

  it("is closed where its bytes cannot be synced", async (context) => {
    context.skip(process.platform !== "linux", "open files are read from /proc");
    const links = () =>
      readdirSync("/proc/self/fd").flatMap((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`);
        } catch {
          return [];
        }
      });
    const openHere = () => links().filter((path) => path === "/dev/null").length;
    const before = openHere();
    const part = await PartFile.open("/dev/null", () => {});
    expect(openHere()).toBe(before + 1);
    await expect(part.close()).rejects.toThrow("EINVAL");
    expect(openHere()).toBe(before);
  });

  it("begins anew after restart", async () => {
    const path = join(await temporaryFolder(), "a.part");
    await writeFile(path, "old");
    const part = await PartFile.open(path, () => {});
    await part.restart();
    await part.append(Buffer.from("new"));
    expect([part.bytes, part.sha256]).toEqual([3, sha256Hex("new")]);
    await part.close();
    expect(await hashFiles([path])).toEqual({ sha256: sha256Hex("new"), bytes: 3 });
  });
});

describe("files", () => {
  it("are GGUF by their first four bytes", async () => {
    const path = join(await temporaryFolder(), "a");
    for (const [text, answer] of [
      ["GGUF\u0003", true],
      ["GGU", false],
      ["", false],
      ["PK..", false],
    ]) {
      await writeFile(path, String(text));
      expect(await isGguf(path)).toBe(answer);
    }
  });

  it("may be absent", async () => {
    const path = join(await temporaryFolder(), "a");
    expect(await fileBytes(path)).toBeUndefined();
    await discardPart(path);
    await expect(access(path)).rejects.toThrow();
  });
});
