import { createServer, type Socket } from "node:net";

// The least that an OpenAI-compatible server can do: every POST gets the same reply, at once. Reads
// no HTTP but the length of the body, so that it is never what a client waits for.
// Prints {"baseUrl": …}, serves until its standard input ends.

const body = JSON.stringify({
  id: "0",
  object: "chat.completion",
  created: 0,
  model: "bench",
  choices: [
    { index: 0, message: { role: "assistant", content: "amber anchor" }, finish_reason: "stop" },
  ],
  usage: { prompt_tokens: 8, completion_tokens: 2, total_tokens: 10 },
});
const reply = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

function serve(socket: Socket): void {
  // Clients that stay connected must not keep this process when its input has ended.
  socket.unref();
  let pending = "";
  socket.setEncoding("latin1").setNoDelay(true);
  socket.on("error", () => {});
  socket.on("data", (text: string) => {
    pending += text;
    for (let end = endOfRequest(pending); end > 0; end = endOfRequest(pending)) {
      pending = pending.slice(end);
      socket.write(reply);
    }
  });
}

/** Where the first whole request ends; 0 while it is not whole. */
function endOfRequest(text: string): number {
  const headEnd = text.indexOf("\r\n\r\n");
  if (headEnd < 0) return 0;
  const length = Number(/content-length: *(\d+)/i.exec(text.slice(0, headEnd))?.[1] ?? 0);
  const end = headEnd + 4 + length;
  return text.length >= end ? end : 0;
}

const server = createServer(serve);
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as { port: number };
  console.log(JSON.stringify({ baseUrl: `http://127.0.0.1:${port}/v1` }));
});
process.stdin.resume().on("end", () => {
  server.close();
});
