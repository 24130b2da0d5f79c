import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { openS3Bucket } from "../../src/data/s3/open.ts";
import { parseObjectLocation } from "../../src/data/s3/settings.ts";
import { storageOpener } from "../../src/data/storage/open.ts";
import { randomInteger, seededRandom } from "../../src/foundation/random.ts";
import { createOnce } from "../../src/run/directory/records.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { storageConformance } from "../conformance/storage-conformance.ts";
import { errorOf } from "../run/run-fixture.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { type ProxyFault, S3Proxy, type S3ProxyOptions } from "../s3-proxy.ts";
import { missingS3Server, S3Server } from "../s3-server.ts";

const faults: readonly ProxyFault[] = [
  "lose-reply",
  "reset",
  "slow-down",
  "server-error",
  "torn-reply",
];

describe("an object store that fails now and then", () => {
  beforeEach((context) => context.skip(missingS3Server !== undefined, missingS3Server));

  let server: S3Server;
  let made = 0;
  const random = seededRandom(6);
  const draw = (rate: number, among = faults) =>
    random.next() < rate ? among[randomInteger(random, among.length)] : undefined;
  beforeAll(async () => {
    if (missingS3Server === undefined) server = await S3Server.start();
  });
  afterAll(() => server?.stop());

  async function through(options: Omit<S3ProxyOptions, "server">) {
    const proxy = await S3Proxy.start({ server: server.address, ...options });
    onTestFinished(() => proxy.stop());
    const open = storageOpener(server.context(proxy.address));
    const bucket = openS3Bucket(server.location(""), server.context(proxy.address));
    const prefix = `faults-${made++}`;
    return { proxy, bucket, prefix, storage: open(server.location(prefix)) };
  }

  describe("passes on every promise but that of a clear answer", () => {
    let proxy: S3Proxy;
    beforeAll(async () => {
      if (missingS3Server !== undefined) return;
      // Whether a create is clear depends on its own faults: those come below.
      const fault: S3ProxyOptions["fault"] = ({ isConditional }) =>
        isConditional ? undefined : draw(0.05);
      proxy = await S3Proxy.start({ server: server.address, fault });
    });
    afterAll(async () => {
      if (!proxy) return;
      expect([...proxy.faults.keys()].sort()).toEqual([...faults].sort());
      await proxy.stop();
    });
    const make = () =>
      storageOpener(server.context(proxy.address))(server.location(`faults-${made++}`));

    storageConformance("s3, with faults", make);
  });

  it("is read and written where tags change their form from one reply to the next", async () => {
    const proxy = await S3Proxy.start({ server: server.address, hasBareTags: true });
    onTestFinished(() => proxy.stop());
    const place = server.location(`faults-${made++}`);
    const rows = Array.from({ length: 30 }, (_, row) => `{"text":"row ${row}"}\n`);
    const input = openS3Bucket(place, server.context());
    const { key } = parseObjectLocation(place);
    await input.put(`${key}/rows.jsonl`, Buffer.from(rows.join("")));
    const { environment } = server;
    const folder = scratchFolder();
    const run = () =>
      runSluice(
        [
          ...["run", "--input", `${place}/rows.jsonl`, "--model", "fake", "--prompt", "{{ text }}"],
          ...["--output", `${place}/out`, "--shard.rows", "7"],
        ],
        folder,
        { ...environment, AWS_ENDPOINT_URL_S3: proxy.address },
      );
    const { code, stderr } = await run();
    expect(code, stderr).toBe(0);
    expect((await run()).stderr).toContain("nothing to do");
    // A content that was replaced is noticed all the same.
    const far = openS3Bucket(place, server.context(proxy.address));
    const reader = await far.reader(`${key}/rows.jsonl`);
    await input.put(`${key}/rows.jsonl`, Buffer.from(rows.join("").toUpperCase()));
    expect(await errorOf(reader.read(0, 10))).toMatchObject({
      message: expect.stringContaining("it was replaced while it was read"),
    });
  });

  it("lets exactly one of many creators win, whatever becomes of the replies", async () => {
    const among: readonly ProxyFault[] = [...faults, "conflict", "lose-reply"];
    const { storage, proxy } = await through({ fault: () => draw(0.3, among) });
    for (let round = 0; round < 10; round++) {
      const path = `race/${round}.json`;
      const outcomes = await Promise.all(
        Array.from({ length: 10 }, (_, creator) =>
          createOnce(storage, path, { creator }, (it) => String(it.creator)),
        ),
      );
      expect(outcomes.filter(({ won }) => won)).toHaveLength(1);
      expect(new Set(outcomes.map(({ record }) => record.creator)).size).toBe(1);
    }
    expect(proxy.faults.get("lose-reply")).toBeGreaterThan(0);
    expect(proxy.faults.get("conflict")).toBeGreaterThan(0);
  });

  it("knows its own success again when the reply to it was lost", async () => {
    let lost = 0;
    const fault: S3ProxyOptions["fault"] = ({ isConditional }) =>
      isConditional && lost++ === 0 ? "lose-reply" : undefined;
    const { storage } = await through({ fault });
    expect(await storage.createIfAbsent("a", Buffer.from("mine"))).toBe("unclear");
    lost = 0;
    const own = await createOnce(storage, "b", { id: "me" }, (it) => it.id);
    expect(own.won).toBe(true);
  });

  it("completes an upload whose completion was carried out and not heard", async () => {
    let lost = 0;
    const { bucket, prefix } = await through({
      fault: ({ method, url }) =>
        method === "POST" && url.includes("uploadId=") && lost++ === 0 ? "lose-reply" : undefined,
    });
    const writer = bucket.writer(`${prefix}/large`);
    const block = Buffer.alloc(1 << 20, "x");
    for (let megabyte = 0; megabyte < 17; megabyte++) await writer.write(block);
    await writer.close();
    expect(lost).toBeGreaterThan(1);
    expect((await bucket.head(`${prefix}/large`))?.bytes).toBe(17 << 20);
    expect(await bucket.uploads(prefix)).toEqual([]);
  });

  it("reads one content to the end, or says that it was replaced", async () => {
    const { bucket, prefix } = await through({});
    const key = `${prefix}/rows`;
    await bucket.put(key, Buffer.alloc(4 << 20, "a"));
    const reader = await bucket.reader(key);
    expect((await reader.read(0, 10)).length).toBe(10);
    await bucket.put(key, Buffer.alloc(4 << 20, "b"));
    const error = await errorOf(reader.read(3 << 20, 10));
    expect(error.code).toBe("STORE_FAILED");
    expect(error.message).toContain("it was replaced while it was read");
  });

  it("says what is wrong with bucket and credentials at once, and tells no secret", async () => {
    const { proxy } = await through({});
    const context = server.context(proxy.address);
    const missing = openS3Bucket("s3://no-such-bucket/", context);
    const absent = await errorOf(missing.put("a", Buffer.from("1")));
    expect(absent.message).toContain("NoSuchBucket");
    expect(absent.hint).toContain("create the bucket");
    const environment = {
      AWS_ACCESS_KEY_ID: "testkey",
      AWS_SECRET_ACCESS_KEY: "never-to-be-seen",
      AWS_SESSION_TOKEN: "nor-this-token",
    };
    const refused = openS3Bucket(server.location(""), { ...context, environment });
    const error = await errorOf(refused.put("a", Buffer.from("1")));
    expect(error.code).toBe("STORE_FAILED");
    expect(error.hint).toContain("AWS_SESSION_TOKEN");
    const told = `${JSON.stringify(error)} ${error.stack} ${(error.cause as Error).stack}`;
    expect(told).not.toContain("never-to-be-seen");
    expect(told).not.toContain("nor-this-token");
    expect(Object.keys(error.cause as Error)).toEqual([]);
    expect(proxy.requests).toBe(2);
  });
});
