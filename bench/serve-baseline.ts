import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Fastify from "fastify";

// The least that an HTTP server of chats does in Node: it reads JSON and writes JSON.
// Prints {"baseUrl": …}, serves until it is killed. node serve-baseline.ts [DELAY_MS | fastify]

const way = process.argv[2] ?? "0";

interface Asked {
  model: string;
  messages: { content: string }[];
}

const completion = ({ model, messages }: Asked) => ({
  ...{ id: "0", created: 0, object: "chat.completion", model },
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "amber anchor apple", refusal: null },
      ...{ logprobs: null, finish_reason: "stop" },
    },
  ],
  usage: { prompt_tokens: messages[0]!.content.length, completion_tokens: 3, total_tokens: 0 },
});

const bare = (delayMs: number) =>
  createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = JSON.stringify(completion(JSON.parse(Buffer.concat(chunks).toString())));
      const answer = () => {
        response.writeHead(200, {
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
        });
        response.end(body);
      };
      if (delayMs > 0) setTimeout(answer, delayMs);
      else answer();
    });
  });

async function withFastify() {
  const server = Fastify();
  server.post("/v1/chat/completions", async ({ body }) => completion(body as Asked));
  await server.ready();
  return server.server;
}

const server = way === "fastify" ? await withFastify() : bare(Number(way));
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  console.log(JSON.stringify({ baseUrl: `http://127.0.0.1:${port}/v1` }));
});
