import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openS3Bucket } from "../../../../src/data/s3/open.ts";
import { storageOpener } from "../../../../src/data/storage/open.ts";
import { S3Storage } from "../../../../src/data/storage/s3/s3-storage.ts";
import type { Storage, Writer } from "../../../../src/data/storage/storage.ts";
import { systemClock } from "../../../../src/foundation/clock.ts";
import { SluiceError } from "../../../../src/foundation/errors.ts";
import { storageConformance } from "../../../conformance/storage-conformance.ts";
import { S3Proxy } from "../../../s3-proxy.ts";
import { bucket, missingS3Server, S3Server } from "../../../s3-server.ts";

const textOf = async (storage: Storage, path: string) =>
  Buffer.from(await storage.read(path)).toString();

it("an object store whose listing fails leaves no segment of this machine open", async () => {
  let open = 0;
  const reader = { bytes: 4, read: async () => new Uint8Array(4), close: async () => void open-- };
  const spool = {
    numbers: async () => [0, 1],
    open: async () => {
      open++;
      return reader;
    },
  };
  const failing = (code: "NOT_FOUND" | "STORE_FAILED") => () => {
    throw new SluiceError(code);
  };
  const storage = new S3Storage({
    ...{ location: "s3://bucket", prefix: "", clock: systemClock, isConditional: true },
    bucket: { reader: failing("NOT_FOUND"), list: failing("STORE_FAILED") } as never,
    spool: spool as never,
  });
  await expect(storage.open("journal.jsonl")).rejects.toMatchObject({ code: "STORE_FAILED" });
  expect(open).toBe(0);
});

describe("an object store", () => {
  beforeEach((context) => context.skip(missingS3Server !== undefined, missingS3Server));

  let server: S3Server;
  let made = 0;
  beforeAll(async () => {
    if (missingS3Server === undefined) server = await S3Server.start();
  });
  afterAll(() => server?.stop());
  const newPlace = () => server.location(`storage-${made++}/in`);
  const newStorage = () => storageOpener(server.context())(newPlace());

  storageConformance("s3", newStorage);

  it("removes many objects by a few requests, and all of what was appended", async () => {
    const place = newPlace();
    const storage = storageOpener(server.context())(place);
    const journals = Array.from({ length: 100 }, (_, at) => `attempts/${at}/journal.jsonl`);
    for (const path of journals) {
      const appender = await storage.appender(path, { isNew: true });
      await appender.append(Buffer.from("one\n"));
      await appender.close();
    }
    const proxy = await S3Proxy.start({ server: server.address });
    try {
      await storageOpener(server.context(proxy.address))(place).removeAll!(journals);
    } finally {
      await proxy.stop();
    }
    expect(await Array.fromAsync(storage.list(""))).toEqual([]);
    // One listing, one removal for each number of segments, and one for names without any.
    expect(proxy.requests).toBeGreaterThan(2);
    expect(proxy.requests).toBeLessThanOrEqual(5);
  });

  it("shows what was appended to those on the machine, and what is stored to all", async () => {
    const place = newPlace();
    const here = storageOpener(server.context())(place);
    const beside = storageOpener(server.context())(place);
    const spoolDirectory = join(server.directory, "../another-machine");
    const elsewhere = storageOpener({ ...server.context(), spoolDirectory })(place);
    const appender = await here.appender("journal.jsonl");
    await appender.append(Buffer.from("one\n"));
    await appender.sync();
    expect(await textOf(beside, "journal.jsonl")).toBe("one\n");
    expect(await beside.stat("journal.jsonl")).toEqual({ path: "journal.jsonl", bytes: 4 });
    expect(await Array.fromAsync(beside.list(""))).toEqual([{ path: "journal.jsonl", bytes: 4 }]);
    expect(await textOf(elsewhere, "journal.jsonl")).toBe("");
    await appender.close();
    expect(await textOf(elsewhere, "journal.jsonl")).toBe("one\n");
  });

  it("goes on with what a killed process left on the machine", async () => {
    const place = newPlace();
    const killed = await storageOpener(server.context())(place).appender("log.jsonl");
    await killed.append(Buffer.from("one\n"));
    const storage = storageOpener(server.context())(place);
    const next = await storage.appender("log.jsonl");
    await next.append(Buffer.from("two\n"));
    await next.close();
    const spoolDirectory = join(server.directory, "../third-machine");
    const elsewhere = storageOpener({ ...server.context(), spoolDirectory })(place);
    expect(await textOf(elsewhere, "log.jsonl")).toBe("one\ntwo\n");
    await storage.remove("log.jsonl");
    expect(await Array.fromAsync(elsewhere.list(""))).toEqual([]);
  });

  it("counts a segment once that a killed process had stored and not let go of", async () => {
    const spoolDirectory = join(server.directory, `../spool-${made}`);
    const storage = storageOpener({ ...server.context(), spoolDirectory })(newPlace());
    const appender = await storage.appender("log.jsonl");
    await appender.append(Buffer.from("one\n"));
    await appender.sync();
    cpSync(spoolDirectory, `${spoolDirectory}-kept`, { recursive: true });
    await appender.close();
    cpSync(`${spoolDirectory}-kept`, spoolDirectory, { recursive: true });
    expect(await Array.fromAsync(storage.list(""))).toEqual([{ path: "log.jsonl", bytes: 4 }]);
    expect(await textOf(storage, "log.jsonl")).toBe("one\n");
  });

  it("reads any range of what was appended in segments", async () => {
    const storage = newStorage();
    for (const text of ["0123", "4567", "89"]) {
      const appender = await storage.appender("log.jsonl");
      await appender.append(Buffer.from(text));
      await appender.close();
    }
    const reader = await storage.open("log.jsonl");
    const ranges = await Promise.all([
      ...[reader.read(5, 2), reader.read(3, 3), reader.read(0, 10), reader.read(9, 9)],
    ]);
    expect(ranges.map((bytes) => Buffer.from(bytes).toString())).toEqual([
      ...["56", "345", "0123456789", "9"],
    ]);
    await reader.close();
  });

  it("replaces what was appended to, and removes all of it", async () => {
    const storage = newStorage();
    const appender = await storage.appender("log.jsonl");
    await appender.append(Buffer.from("old"));
    await appender.close();
    await storage.replace("log.jsonl", Buffer.from("new"));
    expect(await textOf(storage, "log.jsonl")).toBe("new");
    expect(await Array.fromAsync(storage.list("log.jsonl"))).toEqual([
      { path: "log.jsonl", bytes: 3 },
    ]);
    await storage.remove("log.jsonl");
    expect(await storage.stat("log.jsonl")).toBe(undefined);
  });

  it("tells of uploads that nobody ended, and removes them", async () => {
    const place = newPlace();
    const storage = storageOpener(server.context())(place);
    const folder = place.slice(`s3://${bucket}/`.length);
    const stores = openS3Bucket(place, server.context());
    const [writer, beside] = [".jsonl", ".jsonl.gz"].map((end) =>
      stores.writer(`${folder}/part${end}`),
    ) as [Writer, Writer];
    for (let megabyte = 0; megabyte < 9; megabyte++) {
      for (const each of [writer, beside]) await each.write(new Uint8Array(1 << 20));
    }
    expect(await Array.fromAsync(storage.leftovers!("part"))).toHaveLength(2);
    const found = await Array.fromAsync(storage.leftoversOf!(["part.jsonl"]));
    expect(found).toHaveLength(1);
    const again = await Array.fromAsync(storage.leftoversOf!(["part.jsonl", "part.jso"]));
    expect(again.map(({ path }) => path)).toEqual([found[0]!.path]);
    expect(await Array.fromAsync(storage.leftoversOf!([]))).toEqual([]);
    await beside.abort();
    expect(found[0]!.path).toMatch(/^part\.jsonl!upload-./);
    expect(found[0]!.idleMs).toBeLessThan(600_000);
    // A part that is still on its way may come after the removal, and keep the upload.
    await expect
      .poll(async () => {
        await storage.remove(found[0]!.path);
        return Array.fromAsync(storage.leftovers!(""));
      })
      .toEqual([]);
    await writer.abort();
    expect(existsSync(join(server.directory, bucket, "part.jsonl"))).toBe(false);
  });

  it("without conditional writes says so, and still leaves alone what is there", async () => {
    const context = server.context();
    const store = { ...context.store, conditional: "none" as const };
    const storage = storageOpener({ ...context, store })(newPlace());
    expect(storage.createsOnce).toBe(false);
    expect(newStorage().createsOnce).toBe(true);
    expect(await storage.createIfAbsent("a", Buffer.from("1"))).toBe("created");
    expect(await storage.createIfAbsent("a", Buffer.from("2"))).toBe("exists");
    expect(await textOf(storage, "a")).toBe("1");
  });
});
