import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { onTestFinished } from "vitest";
import type { SourceContext } from "../../../src/data/sources/source-store.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { seededRandom } from "../../../src/foundation/random.ts";

/** A web server of one test. */
export interface WebServer {
  origin: string;
  /** What was asked, in order. */
  requests: Pick<IncomingMessage, "url" | "headers">[];
  /** Ends it before the test ends. */
  close(): Promise<void>;
}

/** Starts a server on 127.0.0.1 that ends with the test. */
export async function webServer(listener: RequestListener): Promise<WebServer> {
  const requests: WebServer["requests"] = [];
  const server = createServer((request, response) => {
    requests.push({ url: request.url, headers: request.headers });
    listener(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  onTestFinished(close);
  return { origin, requests, close };
}

/** How a server gives a file. */
export interface Serving {
  /** Default `"one"`; null: none. */
  etag?: string | null;
  /** False: it gives whole files only. Default true. */
  hasRanges?: boolean;
  /** False: it does not say how long the file is. Default true. */
  hasLength?: boolean;
  headers?: Record<string, string>;
}

/** Answers with a file, or with the part of it that a Range header asks for. */
export function fileListener(
  content: () => Uint8Array,
  serving: () => Serving = () => ({}),
): RequestListener {
  return (request, response) => {
    const { etag = '"one"', hasRanges = true, hasLength = true, headers = {} } = serving();
    const file = content();
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    const condition = request.headers["if-range"];
    const isPart = hasRanges && range !== null && (!condition || condition === etag);
    const tagged = { ...headers, ...(etag !== null && { etag }) };
    const start = isPart ? Number(range[1]) : 0;
    const end = isPart && range[2] ? Math.min(Number(range[2]) + 1, file.length) : file.length;
    if (isPart && start >= file.length) {
      return void response.writeHead(416, { "content-range": `bytes */${file.length}` }).end();
    }
    response.writeHead(isPart ? 206 : 200, {
      ...tagged,
      ...(hasLength && { "content-length": end - start }),
      ...(isPart && { "content-range": `bytes ${start}-${end - 1}/${file.length}` }),
    });
    response.end(file.subarray(start, end));
  };
}

/** A context whose waits between tries are a thousandth of the real ones, and what was waited. */
export function sourceContext(
  environment: Record<string, string> = {},
): SourceContext & { waitedMs: number[] } {
  const waitedMs: number[] = [];
  return {
    clock: {
      ...systemClock,
      schedule: (delayMs, callback) => {
        waitedMs.push(delayMs);
        return systemClock.schedule(delayMs / 1000, callback);
      },
    },
    random: seededRandom(1),
    environment,
    temporaryDirectory: tmpdir(),
    waitedMs,
  };
}

/** Text of so many bytes that tells each place in it from the others. */
export function numberedText(bytes: number): Buffer {
  const lines: string[] = [];
  for (let length = 0; length < bytes; length += 10) {
    lines.push(`${String(length).padStart(9, "0")}\n`);
  }
  return Buffer.from(lines.join("")).subarray(0, bytes);
}
