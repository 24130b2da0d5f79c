import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { openS3Bucket } from "../../../src/data/s3/open.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { systemRandom } from "../../../src/foundation/random.ts";

/** A page of open uploads; `next` is the one that the next page begins behind. */
function page(uploads: readonly string[], next?: string): string {
  const all = uploads.map((id) => {
    const begun = "<Initiated>2026-01-01T00:00:00.000Z</Initiated>";
    return `<Upload><Key>in/a</Key><UploadId>${id}</UploadId>${begun}</Upload>`;
  });
  const rest = next
    ? `<NextKeyMarker>in/a</NextKeyMarker><NextUploadIdMarker>${next}</NextUploadIdMarker>`
    : "";
  const facts = `<IsTruncated>${next !== undefined}</IsTruncated>${rest}`;
  return `<ListMultipartUploadsResult>${facts}${all.join("")}</ListMultipartUploadsResult>`;
}

it("lists open uploads over all pages", async () => {
  const asked: [string | null, string | null][] = [];
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url!, "http://localhost");
    const marker = searchParams.get("upload-id-marker");
    asked.push([searchParams.get("key-marker"), marker]);
    response.setHeader("content-type", "application/xml");
    response.end(marker === null ? page(["1", "2"], "2") : page(["3"]));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const bucket = openS3Bucket("s3://bucket/in", {
    environment: { AWS_ACCESS_KEY_ID: "any", AWS_SECRET_ACCESS_KEY: "any" },
    clock: systemClock,
    random: systemRandom,
    store: { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}` },
  });
  const begunMs = Date.UTC(2026, 0, 1);
  expect(await bucket.uploads("in/")).toEqual(
    ["1", "2", "3"].map((uploadId) => ({ key: "in/a", uploadId, begunMs })),
  );
  expect(asked).toEqual([
    [null, null],
    ["in/a", "2"],
  ]);
});
