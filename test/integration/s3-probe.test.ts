import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type OpenStorage, storageOpener } from "../../src/data/storage/open.ts";
import { probeStore } from "../../src/run/plan/probe.ts";
import { type Breach, BrokenS3Server } from "../broken-s3-server.ts";
import { errorOf } from "../run/run-fixture.ts";
import { missingS3Server, S3Server } from "../s3-server.ts";

// `S3_PROBES=50` for a longer look.
const { S3_PROBES = "5" } = process.env;
const probes = Number(S3_PROBES);

describe("the probe of a store", () => {
  it("never refuses a server whose conditional writes are whole", async (context) => {
    context.skip(missingS3Server !== undefined, missingS3Server);
    const server = await S3Server.start();
    try {
      const open = storageOpener(server.context());
      for (let probe = 0; probe < probes; probe++) {
        await probeStore(open(server.location(`probe-${probe}`)), `id-${probe}`);
      }
    } finally {
      await server.stop();
    }
  });

  for (const breach of ["checks-then-writes", "ignores-header"] satisfies Breach[]) {
    describe(`a server that ${breach}`, () => {
      let server: BrokenS3Server;
      let open: OpenStorage;
      beforeAll(async () => {
        server = await BrokenS3Server.start(breach);
        open = storageOpener(server.context());
      });
      afterAll(() => server.stop());

      it("is refused each time", async () => {
        for (let probe = 0; probe < probes; probe++) {
          const storage = open(`s3://bucket/probe-${probe}`);
          const error = await errorOf(probeStore(storage, `id-${probe}`));
          expect(error.code).toBe("STORE_UNSUITABLE");
          expect(error.hint).toContain("store.conditional");
        }
      });

      it("tells two writes in a row apart only if it knows the header", async () => {
        const storage = open("s3://bucket/in-a-row");
        const first = await storage.createIfAbsent("a", Buffer.from("1"));
        const second = await storage.createIfAbsent("a", Buffer.from("2"));
        const isKnown = breach === "checks-then-writes";
        expect([first, second]).toEqual(["created", isKnown ? "exists" : "created"]);
      });
    });
  }
});
