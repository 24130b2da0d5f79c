import { Pool } from "undici";

// Sends chat completions to a server, and prints how it answered as JSON.
// node serve-load.ts BASE_URL '{"seconds": 5, "connections": 64}'        each sends on and on
// node serve-load.ts BASE_URL '{"seconds": 5, "requestsPerSecond": 160}' at random times, whatever
//   the server does; a latency then counts from the time at which the request was due

/** A load. */
export interface Load {
  seconds: number;
  /** Senders that each send the next request after the answer to the last. */
  connections?: number;
  /** Mean of the rate at which requests come, exponentially apart. */
  requestsPerSecond?: number;
  /** Ends after so many requests. */
  requests?: number;
  token?: string;
  maxTokens?: number;
  /** Asks for a stream; the time to its first piece is noted. */
  isStream?: boolean;
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
  firstPieceP50Ms: number;
  tokens: number;
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

const latencies: number[] = [];
const firstPieces: number[] = [];
const refused: Record<string, number> = {};
let withoutRetryAfter = 0;
let tokens = 0;
let sent = 0;

async function send(dueMs: number): Promise<void> {
  const number = sent++;
  const { token, maxTokens = 8, isStream = false } = load;
  const { statusCode, headers, body } = await pool.request({
    path: `${url.pathname}/chat/completions`,
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(token && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({
      model: "bench",
      messages: [{ role: "user", content: `${number} ${words}` }],
      max_tokens: maxTokens,
      ...(isStream && { stream: true, stream_options: { include_usage: true } }),
    }),
  });
  if (isStream && statusCode === 200) await readStream(body, dueMs);
  else {
    const reply = await body.text();
    const usage = statusCode === 200 ? JSON.parse(reply).usage : undefined;
    tokens += usage?.completion_tokens ?? 0;
  }
  if (statusCode === 200) {
    latencies.push(performance.now() - dueMs);
    return;
  }
  refused[statusCode] = (refused[statusCode] ?? 0) + 1;
  if (headers["retry-after"] === undefined) withoutRetryAfter++;
}

async function readStream(body: AsyncIterable<Buffer>, dueMs: number): Promise<void> {
  let isFirst = true;
  let last = "";
  for await (const chunk of body) {
    const piece = chunk.toString();
    if (isFirst && /"content":"[^"]/.test(piece)) {
      firstPieces.push(performance.now() - dueMs);
      isFirst = false;
    }
    last = (last + piece).slice(-2000);
  }
  tokens += Number(/"completion_tokens":(\d+)/.exec(last)?.[1] ?? 0);
}

async function closedLoop(endMs: number): Promise<void> {
  const { connections = 1, requests = Number.POSITIVE_INFINITY } = load;
  const sender = async () => {
    while (performance.now() < endMs && sent < requests) await send(performance.now());
  };
  await Promise.all(Array.from({ length: connections }, sender));
}

async function openLoop(endMs: number, perSecond: number): Promise<void> {
  const open = new Set<Promise<void>>();
  let dueMs = performance.now();
  while (dueMs < endMs) {
    const waitMs = dueMs - performance.now();
    if (waitMs > 1) await new Promise((resolve) => setTimeout(resolve, waitMs));
    const one = send(dueMs).finally(() => open.delete(one));
    open.add(one);
    dueMs += (-Math.log(1 - Math.random()) / perSecond) * 1000;
  }
  await Promise.all(open);
}

const beganMs = performance.now();
const endMs = beganMs + load.seconds * 1000;
if (load.requestsPerSecond === undefined) await closedLoop(endMs);
else await openLoop(endMs, load.requestsPerSecond);
const seconds = (performance.now() - beganMs) / 1000;
const at = (values: number[], share: number) =>
  values.sort((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? Number.NaN;
const served: Served = {
  ...{ seconds, answered: latencies.length, answeredPerSecond: latencies.length / seconds },
  ...{ refused, withoutRetryAfter, tokens },
  p50Ms: at(latencies, 0.5),
  p99Ms: at(latencies, 0.99),
  firstPieceP50Ms: at(firstPieces, 0.5),
};
console.log(JSON.stringify(served));
await pool.close();
