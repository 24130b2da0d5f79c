import { createServer, type ServerResponse } from "node:http";
import { seededRandom } from "../src/foundation/random.ts";

// An OpenAI-compatible server with a knee that moves: it answers so many requests at once, each
// after a time that follows from its prompt; others wait, or are refused (429).
// Prints {"baseUrl": …}, serves until its standard input ends. GET /moved lets the knee move now;
// GET /refused says how many it refused.
// A refusal asks for a wait, where that is given; one request in so many is refused by chance.
// node knee-process.ts queue|refuse FIRST_KNEE SECOND_KNEE [RETRY_AFTER_SECONDS [ONE_IN]]

const msPerToken = 4;

const [beyond = "", firstKnee, secondKnee, retryAfter, oneIn] = process.argv.slice(2);
const chance = seededRandom(7);
let knee = Number(firstKnee);
let running = 0;
let refused = 0;
const waiting: (() => void)[] = [];

/** Answers of a few tokens, and some of many: 30 on the average. */
function tokensOf(body: string): number {
  const seed = Number(/question (\d+)/.exec(body)?.[1] ?? 0);
  return Math.max(1, Math.min(200, Math.round(-30 * Math.log(1 - seededRandom(seed).next()))));
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

function answer(response: ServerResponse, tokens: number): void {
  const message = { role: "assistant", content: "amber" };
  send(response, 200, {
    ...{ id: "0", object: "chat.completion", created: 0, model: "bench" },
    choices: [{ index: 0, message, finish_reason: "stop" }],
    usage: { prompt_tokens: 8, completion_tokens: tokens, total_tokens: 8 + tokens },
  });
}

function begin(): void {
  while (running < knee && waiting.length > 0) {
    running++;
    waiting.shift()!();
  }
}

const server = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (text: string) => {
    body += text;
  });
  request.on("end", () => {
    if (request.url === "/moved") {
      knee = Number(secondKnee);
      return send(response, 200, {});
    }
    if (request.url === "/refused") return send(response, 200, { refused });
    if (request.method !== "POST") return send(response, 404, { error: { message: "not here" } });
    const isUnlucky = oneIn !== undefined && chance.next() < 1 / Number(oneIn);
    if (isUnlucky || (beyond === "refuse" && running >= knee)) {
      refused++;
      if (retryAfter !== undefined) response.setHeader("retry-after", retryAfter);
      return send(response, 429, { error: { message: "too many requests at once" } });
    }
    const tokens = tokensOf(body);
    waiting.push(() => {
      setTimeout(() => {
        running--;
        answer(response, tokens);
        begin();
      }, tokens * msPerToken);
    });
    begin();
  });
});
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as { port: number };
  console.log(JSON.stringify({ baseUrl: `http://127.0.0.1:${port}/v1` }));
});
process.stdin.resume().on("end", () => {
  server.close();
  server.closeAllConnections();
});
