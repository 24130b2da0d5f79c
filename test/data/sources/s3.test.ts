import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openS3Bucket } from "../../../src/data/s3/open.ts";
import { inputStores } from "../../../src/data/sources/open.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { S3Proxy } from "../../s3-proxy.ts";
import { missingS3Server, S3Server } from "../../s3-server.ts";

describe("inputs of an object store", () => {
  beforeEach((context) => context.skip(missingS3Server !== undefined, missingS3Server));

  let server: S3Server;
  let proxy: S3Proxy;
  const seen: string[] = [];
  beforeAll(async () => {
    if (missingS3Server !== undefined) return;
    server = await S3Server.start();
    const fault = ({ method }: { method: string }) => void seen.push(method);
    proxy = await S3Proxy.start({ server: server.address, fault });
  });
  afterAll(async () => {
    await proxy?.stop();
    await server?.stop();
  });

  it("looks once at a file of many slices, and still notices another content", async () => {
    const place = server.location("rows.jsonl");
    const bucket = openS3Bucket(place, server.context());
    await bucket.put("rows.jsonl", Buffer.from("one\ntwo\n"));
    const { etag } = (await bucket.head("rows.jsonl"))!;
    const context = { ...server.context(proxy.address), temporaryDirectory: "/never/used" };
    const inputs = inputStores(context);
    const readSlice = async (start: number, end: number) => {
      const reader = await inputs.open(place, { etag, end });
      return Buffer.from(await reader.read(start, end - start)).toString();
    };
    seen.length = 0;
    expect(await readSlice(0, 4)).toBe("one\n");
    expect(await readSlice(4, 8)).toBe("two\n");
    expect(seen.filter((method) => method === "HEAD")).toHaveLength(1);
    await bucket.put("rows.jsonl", Buffer.from("ONE\nTWO\n"));
    const changed = await readSlice(4, 8).catch((error: unknown) => error);
    expect(changed).toBeInstanceOf(SluiceError);
    expect(changed).toMatchObject({ code: "INPUT_CHANGED" });
  });

  it("asks for a slice in few requests", async () => {
    const bytes = 3 * 1024 * 1024;
    const place = server.location("large.jsonl");
    await openS3Bucket(place, server.context()).put("large.jsonl", Buffer.alloc(bytes, "x"));
    const inputs = inputStores({
      ...server.context(proxy.address),
      temporaryDirectory: "/never/used",
    });
    const reader = await inputs.open(place, { end: bytes });
    seen.length = 0;
    const chunk = 256 * 1024;
    for (let at = 0; at < bytes; at += chunk) await reader.read(at, chunk);
    await reader.close();
    expect(seen.length).toBeLessThanOrEqual(4);
  });
});
