import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** A web server of one test. */
export interface TestServer {
  origin: string;
  /** What was asked, in order. */
  requests: Pick<IncomingMessage, "url" | "headers">[];
}

/** Starts a server on 127.0.0.1 that ends with the test. */
export async function serve(listener: RequestListener): Promise<TestServer> {
  const requests: TestServer["requests"] = [];
  const server = createServer((request, response) => {
    requests.push({ url: request.url, headers: request.headers });
    listener(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

/**
 * Answers with a file, or with the part of it that a Range header asks for; with `hold` it stops
 * after so many bytes and hands the response over, for the test to cut.
 */
export function sendFile(
  file: Uint8Array,
  options: {
    etag?: string;
    hold?: { bytes: number; held: (response: ServerResponse) => void };
  } = {},
): RequestListener {
  return (request, response) => {
    const { etag = '"one"', hold } = options;
    const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? "");
    const condition = request.headers["if-range"];
    const isPart = range !== null && (condition === undefined || condition === etag);
    const start = isPart ? Number(range[1]) : 0;
    if (start >= file.length) return void response.writeHead(416).end();
    const body = file.subarray(start);
    response.writeHead(isPart ? 206 : 200, {
      etag,
      "content-length": body.length,
      ...(isPart && { "content-range": `bytes ${start}-${file.length - 1}/${file.length}` }),
    });
    if (hold === undefined) return void response.end(body);
    hold.held(response);
    response.write(body.subarray(0, hold.bytes));
  };
}
