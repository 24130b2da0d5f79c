import { readFileSync } from "node:fs";
import { Pool } from "undici";

// Sends chat completions to a server, and prints how it answered as JSON.
// node serve-load.ts BASE_URL '{"seconds": 5, "connections": 64}'        each sends on and on
// node serve-load.ts BASE_URL '{"seconds": 5, "requestsPerSecond": 160}' at random times, whatever
//   the server does; a latency then counts from the time at which the request was due
// node serve-load.ts BASE_URL '{"seconds": 0, "arrivals": "requests.jsonl"}' at the times of a file

/** A load. */
export interface Load {
  seconds: number;
  /** Senders that each send the next request after the answer to the last. */
  connections?: number;
  /** Mean of the rate at which requests come, exponentially apart. */
  requestsPerSecond?: number;
  /** A file of JSON lines, each an `Arrival`. */
  arrivals?: string;
  /** Behind the base URL; default `/chat/completions`. */
  path?: string;
  /** Ends after so many requests. */
  requests?: number;
  token?: string;
  maxTokens?: number;
  /** Asks for a stream; the time to its first piece is noted. */
  isStream?: boolean;
}

/** A request and the time at which it is sent, whatever the server does. */
export interface Arrival {
  atMs: number;
  body: object;
}

/** How a server answered. */
export interface Served {
  seconds: number;
  answered: number;
  answeredPerSecond: number;
  /** Other answers, by status. */
  refused: Record<string, number>;
  /** Refusals without a Retry-After. */
  withoutRetryAfter: number;
  p50Ms: number;
  p99Ms: number;
  /** Of streams: from the time at which the request was due. */
  firstPieceP50Ms: number;
  firstPieceP90Ms: number;
  firstPieceP99Ms: number;
  /** Of streams: from the first piece to the end, divided by the further tokens. */
  tokenP50Ms: number;
  tokenP99Ms: number;
  /** Streams with the first piece within 2 s and 100 ms for each further token. */
  goodPerSecond: number;
  tokens: number;
  promptTokens: number;
}

const [baseUrl, text] = process.argv.slice(2) as [string, string];
const load = JSON.parse(text) as Load;
const words = "amber anchor apple arrow basil beacon birch bridge ".repeat(16);
const url = new URL(baseUrl);
const pool = new Pool(url.origin, {
  connections: load.connections ?? 2000,
  pipelining: 1,
  headersTimeout: 0,
  bodyTimeout: 0,
});

const firstPieceLimitMs = 2000;
const tokenLimitMs = 100;
const latencies: number[] = [];
const firstPieces: number[] = [];
const perToken: number[] = [];
const refused: Record<string, number> = {};
let withoutRetryAfter = 0;
let good = 0;
let tokens = 0;
let promptTokens = 0;
let sent = 0;

function bodyOf(number: number): object {
  const { maxTokens = 8, isStream = false } = load;
  return {
    model: "bench",
    messages: [{ role: "user", content: `${number} ${words}` }],
    max_tokens: maxTokens,
    ...(isStream && { stream: true, stream_options: { include_usage: true } }),
  };
}

async function send(dueMs: number, given?: object): Promise<void> {
  const asked = given ?? bodyOf(sent);
  sent++;
  const { token, path = "/chat/completions" } = load;
  const { statusCode, headers, body } = await pool.request({
    path: `${url.pathname.replace(/\/$/, "")}${path}`,
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(token && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify(asked),
  });
  if ("stream" in asked && statusCode === 200) await readStream(body, dueMs);
  else {
    const reply = await body.text();
    if (statusCode === 200) count(reply);
  }
  if (statusCode === 200) {
    latencies.push(performance.now() - dueMs);
    return;
  }
  refused[statusCode] = (refused[statusCode] ?? 0) + 1;
  if (headers["retry-after"] === undefined) withoutRetryAfter++;
}

async function readStream(body: AsyncIterable<Buffer>, dueMs: number): Promise<void> {
  let firstMs: number | undefined;
  let last = "";
  for await (const chunk of body) {
    const piece = chunk.toString();
    if (firstMs === undefined && /"content":"[^"]/.test(piece)) firstMs = performance.now();
    last = (last + piece).slice(-2000);
  }
  const further = count(last) - 1;
  // All of it may be bytes of a character that is not whole.
  firstMs ??= performance.now();
  const tokenMs = (performance.now() - firstMs) / Math.max(1, further);
  firstPieces.push(firstMs - dueMs);
  if (further > 0) perToken.push(tokenMs);
  if (firstMs - dueMs <= firstPieceLimitMs && tokenMs <= tokenLimitMs) good++;
}

/** Adds the usage at the end of an answer, and gives its tokens. */
function count(answer: string): number {
  const of = (kind: string) => Number(new RegExp(`"${kind}_tokens":(\\d+)`).exec(answer)?.[1] ?? 0);
  promptTokens += of("prompt");
  tokens += of("completion");
  return of("completion");
}

async function closedLoop(endMs: number): Promise<void> {
  const { connections = 1, requests = Number.POSITIVE_INFINITY } = load;
  const sender = async () => {
    while (performance.now() < endMs && sent < requests) await send(performance.now());
  };
  await Promise.all(Array.from({ length: connections }, sender));
}

async function openLoop(arrivals: Iterable<Partial<Arrival>>): Promise<void> {
  const open = new Set<Promise<void>>();
  for (const { atMs = 0, body } of arrivals) {
    const dueMs = beganMs + atMs;
    const waitMs = dueMs - performance.now();
    if (waitMs > 1) await new Promise((resolve) => setTimeout(resolve, waitMs));
    const one = send(dueMs, body).finally(() => open.delete(one));
    open.add(one);
  }
  await Promise.all(open);
}

function* atRandomTimes(seconds: number, perSecond: number): Generator<{ atMs: number }> {
  for (let atMs = 0; atMs < seconds * 1000; ) {
    yield { atMs };
    atMs += (-Math.log(1 - Math.random()) / perSecond) * 1000;
  }
}

const linesOf = (file: string) =>
  readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Arrival);

const beganMs = performance.now();
const { seconds: wantedSeconds, requestsPerSecond, arrivals } = load;
if (arrivals !== undefined) await openLoop(linesOf(arrivals));
else if (requestsPerSecond === undefined) await closedLoop(beganMs + wantedSeconds * 1000);
else await openLoop(atRandomTimes(wantedSeconds, requestsPerSecond));
const seconds = (performance.now() - beganMs) / 1000;
const at = (values: number[], share: number) =>
  values.sort((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? Number.NaN;
const served: Served = {
  ...{ seconds, answered: latencies.length, answeredPerSecond: latencies.length / seconds },
  ...{ refused, withoutRetryAfter, tokens, promptTokens, goodPerSecond: good / seconds },
  p50Ms: at(latencies, 0.5),
  p99Ms: at(latencies, 0.99),
  firstPieceP50Ms: at(firstPieces, 0.5),
  firstPieceP90Ms: at(firstPieces, 0.9),
  firstPieceP99Ms: at(firstPieces, 0.99),
  tokenP50Ms: at(perToken, 0.5),
  tokenP99Ms: at(perToken, 0.99),
};
console.log(JSON.stringify(served));
await pool.close();
