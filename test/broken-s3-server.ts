import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import type { StorageContext } from "../src/data/storage/open.ts";
import { systemClock } from "../src/foundation/clock.ts";
import { systemRandom } from "../src/foundation/random.ts";

/** How a server breaks the promise of a conditional write. */
export type Breach =
  /** It looks first and writes later: two writes in a row are told apart, a race is not. */
  | "checks-then-writes"
  /** It does not know the header. */
  | "ignores-header";

/**
 * A small S3 server in memory whose conditional writes are broken, as some are that people run. It
 * asks for no credentials.
 */
export class BrokenS3Server {
  readonly address: string;
  readonly #server: ReturnType<typeof createServer>;

  private constructor(server: ReturnType<typeof createServer>) {
    this.#server = server;
    this.address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async start(breach: Breach): Promise<BrokenS3Server> {
    const objects = new Map<string, Buffer>();
    const server = createServer((request, response) => {
      void answer(objects, breach, request, response);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new BrokenS3Server(server);
  }

  context(): StorageContext {
    return {
      environment: { AWS_ACCESS_KEY_ID: "any", AWS_SECRET_ACCESS_KEY: "any" },
      clock: systemClock,
      random: systemRandom,
      spoolDirectory: "/never/used",
      store: { endpoint: this.address },
    };
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}

async function answer(
  objects: Map<string, Buffer>,
  breach: Breach,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const key = new URL(request.url!, "http://any").pathname;
  const isRefused =
    breach === "checks-then-writes" && request.headers["if-none-match"] === "*" && objects.has(key);
  const body = Buffer.concat(await request.toArray());
  if (request.method === "PUT") {
    if (isRefused) return fail(response, 412, "PreconditionFailed");
    // What a disk takes, in which the others look.
    await pause(1);
    objects.set(key, body);
    response.setHeader("etag", etagOf(body)).end();
    return;
  }
  if (request.method === "DELETE") {
    objects.delete(key);
    return void response.writeHead(204).end();
  }
  // Nothing was ever appended.
  if (request.url!.includes("list-type=2")) return void response.end("<ListBucketResult/>");
  const object = objects.get(key);
  if (!object) return fail(response, 404, "NoSuchKey");
  response.setHeader("etag", etagOf(object)).setHeader("content-length", object.length);
  response.end(request.method === "HEAD" ? undefined : object);
}

function etagOf(content: Buffer): string {
  return `"${createHash("md5").update(content).digest("hex")}"`;
}

function fail(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { "content-type": "application/xml" });
  response.end(`<?xml version="1.0"?><Error><Code>${code}</Code></Error>`);
}
