import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { S3Bucket } from "../../../src/data/s3/bucket.ts";
import type { ByteRange, S3Requests } from "../../../src/data/s3/requests.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { systemRandom } from "../../../src/foundation/random.ts";
import { virtualClock } from "../../fakes/virtual-clock.ts";
import { errorOf } from "../../run/run-fixture.ts";

/** A bucket of which each request is answered by the next of some replies. */
function scripted(method: keyof S3Requests, ...replies: (string | number)[]) {
  const clock = virtualClock();
  let asked = 0;
  const answer = async () => {
    const reply = replies[Math.min(asked++, replies.length - 1)]!;
    if (reply === "ok") return undefined;
    if (typeof reply === "number") throw status(reply);
    throw Object.assign(new Error(reply), { code: reply });
  };
  const requests = { [method]: answer } as unknown as S3Requests;
  const bucket = new S3Bucket({
    location: "s3://bucket",
    connect: async () => requests,
    clock,
    random: systemRandom,
  });
  return { bucket, clock, asked: () => asked };
}

function bucketOf(requests: S3Requests): S3Bucket {
  const parts = { clock: virtualClock(), random: systemRandom };
  return new S3Bucket({ location: "s3://bucket", connect: async () => requests, ...parts });
}

function status(code: number): Error {
  const names: Record<number, string> = { 404: "NoSuchKey", 409: "ConditionalRequestConflict" };
  const name = names[code] ?? "Status";
  return Object.assign(new Error(name), { name, $metadata: { httpStatusCode: code } });
}

const data = Buffer.from("1");

describe("S3Bucket", () => {
  it("tries again what may pass, later each time, and no refusal", async () => {
    const { bucket, clock, asked } = scripted("put", 503, 500, "ECONNRESET", "ok");
    await clock.run(bucket.put("a", data));
    expect(asked()).toBe(4);
    expect(clock.monotonic()).toBeGreaterThan(0);
    expect(clock.monotonic()).toBeLessThanOrEqual(100 + 200 + 400);
    const refused = scripted("put", 403);
    expect((await errorOf(refused.bucket.put("a", data))).code).toBe("STORE_FAILED");
    expect(refused.asked()).toBe(1);
  });

  it("removes a thousand at once, and one by one where the store refuses that", async () => {
    const together: number[] = [];
    const removed: string[] = [];
    const refusals = [status(501), status(400)];
    for (const refusal of [undefined, ...refusals]) {
      const removeAll = async (keys: readonly string[]) => {
        together.push(keys.length);
        if (refusal) throw refusal;
      };
      const remove = async (key: string) => void removed.push(key);
      const bucket = bucketOf({ removeAll, remove } as unknown as S3Requests);
      const keys = Array.from({ length: 2100 }, (_, at) => `${at}`);
      await bucket.removeAll(keys);
      if (!refusal) expect(together.splice(0)).toEqual([1000, 1000, 100]);
      if (!refusal) continue;
      expect(together.splice(0)).toEqual([1000]);
      expect(removed.splice(0)).toEqual(keys);
    }
  });

  it("says why one by one is refused as well", async () => {
    const refuse = async () => {
      throw Object.assign(new Error("no"), {
        name: "AccessDenied",
        $metadata: { httpStatusCode: 403 },
      });
    };
    const bucket = bucketOf({ removeAll: refuse, remove: refuse } as unknown as S3Requests);
    const error = await errorOf(bucket.removeAll(["a"]));
    expect(error.message).toContain("AccessDenied");
  });

  it("ends a listing that goes on where it was", async () => {
    const objects = [{ key: "a", bytes: 1, etag: "x" }];
    const list = async () => ({ objects, next: "page" });
    const bucket = bucketOf({ list } as unknown as S3Requests);
    const all = async () => {
      for await (const { key } of bucket.list("")) expect(key).toBe("a");
    };
    expect(await errorOf(all())).toMatchObject({
      code: "STORE_FAILED",
      message: expect.stringContaining("its listing repeats itself"),
    });
  });

  it("gives up in the end", async () => {
    const { bucket, clock, asked } = scripted("get", 503);
    const error = await clock.run(errorOf(bucket.get("a")));
    expect(error.message).toContain("(status 503) (s3://bucket/a)");
    expect(asked()).toBe(12);
  });

  const creations: [replies: (string | number)[], outcome: string][] = [
    [["ok"], "created"],
    [[412], "exists"],
    // The first try may have been carried out: 412 may be its own success.
    [["ECONNRESET", 412], "unclear"],
    [[500, 412], "unclear"],
    [[409, 412], "unclear"],
    // Whatever became of the first, only this one can have made it.
    [["ECONNRESET", "ok"], "created"],
    [["ECONNRESET"], "unclear"],
  ];
  for (const [replies, outcome] of creations) {
    it(`calls a creation ${outcome} after ${replies.join(", ")}`, async () => {
      const { bucket, clock } = scripted("put", ...replies);
      expect(await clock.run(bucket.putIfAbsent("a", data))).toBe(outcome);
    });
  }

  it("throws what no creation can pass", async () => {
    const { bucket } = scripted("put", 403);
    expect((await errorOf(bucket.putIfAbsent("a", data))).code).toBe("STORE_FAILED");
  });

  it("takes what is absent for removed, and for undefined", async () => {
    await scripted("remove", 404).bucket.remove("a");
    expect(await scripted("head", 404).bucket.head("a")).toBe(undefined);
    expect((await errorOf(scripted("get", 404).bucket.get("a"))).code).toBe("NOT_FOUND");
  });

  const md5 = (...texts: (string | Buffer)[]) =>
    createHash("md5").update(Buffer.concat(texts.map((text) => Buffer.from(text))));
  const partTags = ["a", "b"].map((text) => md5(text).digest());
  const wholeTag = `"${md5(...partTags).digest("hex")}-2"`;

  it.each([
    ["is whole", wholeTag, undefined],
    ["is another one", '"0123456789abcdef0123456789abcdef-2"', "NOT_FOUND"],
  ])("continues an upload whose completion was not heard: the object %s", async (_, etag, code) => {
    const clock = virtualClock();
    let asked = 0;
    const requests = {
      uploadPart: async ({ number }: { number: number }) => partOf(number),
      async completeUpload() {
        if (asked++ === 0) throw Object.assign(new Error("lost"), { code: "ECONNRESET" });
        throw Object.assign(status(404), { name: "NoSuchUpload" });
      },
      // The process that began the upload gave it its name.
      head: async (key: string) => ({ key, bytes: 2, etag, metadata: { "sluice-upload": "its" } }),
      abortUpload: async () => {},
    } as unknown as S3Requests;
    const partOf = (number: number) => {
      return { number, etag: `"${partTags[number - 1]!.toString("hex")}"`, checksum: undefined };
    };
    const parts = { clock, random: systemRandom };
    const bucket = new S3Bucket({ location: "s3://b", connect: async () => requests, ...parts });
    const writer = bucket.writer("k", { begun: { uploadId: "id", parts: [partOf(1)] } });
    await writer.write(Buffer.from("b"));
    const ended = writer.close().then(
      () => undefined,
      (error) => error.code,
    );
    expect(await clock.run(ended)).toBe(code);
    expect(asked).toBe(2);
  });

  it("copies by parts what the store refuses to copy at once, for it is too large", async () => {
    const parts: string[] = [];
    const bytes = limits.maxStoreCopyBytes + 1;
    const requests = {
      copy: async () => {
        throw Object.assign(new Error("too large"), {
          name: "InvalidRequest",
          $metadata: { httpStatusCode: 400 },
        });
      },
      head: async (key: string) => ({ key, bytes, etag: "e", metadata: {} }),
      beginUpload: async () => "upload",
      copyPart: async (
        { number }: { number: number },
        _from: string,
        { start, end }: ByteRange,
      ) => {
        parts.push(`${start}-${end}`);
        return { number, etag: "p", checksum: undefined };
      },
      completeUpload: async (key: string) => void parts.push(key),
    } as unknown as S3Requests;
    const bucket = bucketOf(requests);
    await bucket.copy("from", "to");
    expect(parts).toEqual([`0-${bytes - 1}`, `${bytes - 1}-${bytes}`, "to"]);
    const small = { ...requests, head: async () => ({ bytes: 5 }) } as unknown as S3Requests;
    expect((await errorOf(bucketOf(small).copy("from", "to"))).message).toContain("InvalidRequest");
  });
});
