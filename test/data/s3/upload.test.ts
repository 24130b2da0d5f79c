import { describe, expect, it } from "vitest";
import { storePartsAtOnce, Upload, type UploadSteps } from "../../../src/data/s3/upload.ts";
import { limits } from "../../../src/foundation/limits.ts";

/** Notes what is asked of the store; `fail` is the part that fails. */
function steps(fail?: number) {
  const log: string[] = [];
  let underWay = 0;
  let most = 0;
  const asked: UploadSteps = {
    put: async (data) => void log.push(`put ${data.length}`),
    begin: async () => {
      log.push("begin");
      return "id";
    },
    putPart: async (uploadId, number, data) => {
      most = Math.max(most, ++underWay);
      // The first part takes longest.
      for (let turns = number === 1 ? 5 : 1; turns > 0; turns--) await new Promise(setImmediate);
      underWay--;
      if (number === fail) throw new Error("no part");
      log.push(`${uploadId} ${number} ${data.length}`);
      return { number, etag: `e${number}`, checksum: undefined };
    },
    complete: async (_, parts) => void log.push(`complete ${parts.map((it) => it.etag).join()}`),
    abort: async () => void log.push("abort"),
  };
  return { log, asked, most: () => most };
}

const block = new Uint8Array(limits.storePartBytes / 4);

describe("Upload", () => {
  it("puts a small object in one request", async () => {
    const { log, asked } = steps();
    const upload = new Upload(asked);
    await upload.write(Buffer.from("ab"));
    await upload.write(Buffer.from("c"));
    await upload.close();
    expect(log).toEqual(["put 3"]);
  });

  it("keeps what was written, though its bytes are used again", async () => {
    const put: string[] = [];
    const { asked } = steps();
    const upload = new Upload({ ...asked, put: async (data) => void put.push(String(data)) });
    const bytes = Buffer.from("first ");
    await upload.write(bytes);
    bytes.write("second");
    await upload.write(bytes);
    await upload.close();
    expect(put).toEqual(["first second"]);
  });

  it("puts a large one by parts, some at once, and completes them in order", async () => {
    const { log, asked, most } = steps();
    const upload = new Upload(asked);
    for (let blocks = 0; blocks < 21; blocks++) await upload.write(block);
    await upload.close();
    expect(log[0]).toBe("begin");
    expect(log.at(-1)).toBe("complete e1,e2,e3,e4,e5,e6");
    expect(log).toContain(`id 6 ${block.length}`);
    expect(most()).toBe(storePartsAtOnce);
  });

  it("makes parts of one size where the object's size is known, and not too many", async () => {
    const { log, asked } = steps();
    const upload = new Upload(asked, { bytes: limits.storePartBytes * 10_000 + 1 });
    for (let blocks = 0; blocks < 17; blocks++) await upload.write(block);
    await upload.close();
    expect(log).toContain(`id 1 ${2 * limits.storePartBytes}`);
    expect(log).toContain(`id 2 ${2 * limits.storePartBytes}`);
    expect(log.at(-1)).toBe("complete e1,e2,e3");
  });

  it("makes parts larger in time, so that they are not too many", async () => {
    const { log, asked } = steps();
    const parts = Array.from({ length: 1000 }, (_, at) => ({
      ...{ number: at + 1, etag: "e", checksum: undefined },
    }));
    const upload = new Upload(asked, { begun: { uploadId: "id", parts } });
    for (let blocks = 0; blocks < 9; blocks++) await upload.write(block);
    await upload.close();
    expect(log.slice(0, 2)).toEqual([
      `id 1001 ${2 * limits.storePartBytes}`,
      `id 1002 ${block.length}`,
    ]);
  });

  it("aborts what fails, and what is given up, and nothing that is whole", async () => {
    const failing = steps(2);
    const upload = new Upload(failing.asked);
    const writes = Array.from({ length: 12 }, () => upload.write(block));
    await expect(Promise.all([...writes, upload.close()])).rejects.toThrow("no part");
    await upload.abort();
    expect(failing.log.at(-1)).toBe("abort");
    const givenUp = steps();
    const other = new Upload(givenUp.asked);
    await other.write(Buffer.from("a"));
    await other.abort();
    expect(givenUp.log).toEqual([]);
    const whole = steps();
    const done = new Upload(whole.asked);
    await done.close();
    await done.abort();
    expect(whole.log).toEqual(["put 0"]);
  });
});
