import { isUtf8 } from "node:buffer";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { inputStores } from "../../src/data/sources/open.ts";
import type { SourceContext } from "../../src/data/sources/source-store.ts";
import { modelOptions } from "../../src/engines/model-options.ts";
import { openOpenai } from "../../src/engines/openai/engine.ts";
import type { OpenaiModelOptions } from "../../src/engines/openai/options.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { asSluiceError } from "../../src/foundation/errors.ts";
import { type Random, seededRandom } from "../../src/foundation/random.ts";
import { chatRequest, engineContext } from "../engines/engine-context.ts";
import {
  type HostileReply,
  hostileReply,
  wholeCalls,
  wholeText,
  wholeVector,
} from "./hostile-reply.ts";

export interface ReplyReport {
  replies: number;
  /** Replies that were taken as an answer, and those that ended with a named error. */
  answered: number;
  refused: number;
  /** What must not be, each with its seed. */
  hangs: string[];
  unnamed: string[];
  /** Sound replies without their answer, and answers of what is none. */
  wrong: string[];
}

/** Far beyond what all limits of time below come to: the machine may be busy. */
const maxReplyMs = 60_000;
const atOnce = 8;

/** Has the hostile replies of `count` seeds from `firstSeed` on read by who asked for them. */
export async function fuzzReplies(count: number, firstSeed: number): Promise<ReplyReport> {
  const report: ReplyReport = {
    ...{ replies: count, answered: 0, refused: 0, hangs: [], unnamed: [], wrong: [] },
  };
  const server = await replyingServer();
  let seed = firstSeed;
  const work = async () => {
    while (seed < firstSeed + count) await judge(seed++, server.port, report);
  };
  try {
    await Promise.all(Array.from({ length: atOnce }, work));
    return report;
  } finally {
    server.close();
  }
}

async function judge(seed: number, port: number, report: ReplyReport): Promise<void> {
  const reply = hostileReply(seed);
  const place = `seed ${seed}: ${reply.askedFor}, ${reply.mutation}`;
  const timer = Promise.withResolvers<"hang">();
  const cancel = systemClock.schedule(maxReplyMs, () => timer.resolve("hang"));
  const asked = ask(reply, `http://127.0.0.1:${port}/${seed}`, seededRandom(seed)).then(
    (answer) => ({ answer }),
    (thrown: unknown) => ({ error: asSluiceError(thrown) }),
  );
  const outcome = await Promise.race([asked, timer.promise]);
  cancel();
  if (outcome === "hang") report.hangs.push(place);
  else if ("error" in outcome) {
    report.refused++;
    const { code, message } = outcome.error;
    if (code === "INTERNAL") report.unnamed.push(`${place}: ${message}`);
    if (reply.isSound) report.wrong.push(`${place}: ${message}`);
  } else {
    report.answered++;
    const isRight = reply.isSound
      ? outcome.answer === JSON.stringify(wholeOf(reply))
      : isPossible(reply, JSON.parse(outcome.answer ?? "null"));
    if (!isRight) report.wrong.push(`${place}: ${outcome.answer}`);
  }
}

/** Whether a reply can mean that: no text out of what is none, vectors of numbers. */
function isPossible({ askedFor, body }: HostileReply, answer: unknown): boolean {
  if (askedFor === "file") return typeof answer === "string";
  if (!isUtf8(body)) return false;
  if (askedFor === "chat" || askedFor === "completion") return typeof answer === "string";
  // Calls are the caller's to judge; a text may stand in their place.
  if (askedFor === "calls") return Array.isArray(answer) || typeof answer === "string";
  const kind = askedFor === "embedding" ? "number" : "string";
  return Array.isArray(answer) && answer.every((each) => typeof each === kind);
}

function wholeOf({ askedFor }: HostileReply): unknown {
  if (askedFor === "listing") return ["a.jsonl"];
  if (askedFor === "file") return "größer";
  if (askedFor === "calls") return wholeCalls;
  return askedFor === "embedding" ? wholeVector : wholeText;
}

/** What came of asking, as JSON: what cannot be written as such could be in no result. */
async function ask(
  { askedFor, isSound }: HostileReply,
  origin: string,
  random: Random,
): Promise<string> {
  if (askedFor === "listing" || askedFor === "file")
    return JSON.stringify(await read(askedFor, origin, random));
  const engine = openOpenai(
    modelOptions.parse({
      ...{ engine: "openai", name: "m", baseUrl: `${origin}/v1` },
      // A sound reply comes when the machine gets to it.
      ...{ timeoutMs: isSound ? maxReplyMs / 2 : 1000, maxInFlight: 1, maxEndpointDownMs: 50 },
    }) as OpenaiModelOptions,
    engineContext({ random }),
  );
  const asksLogprobs = askedFor === "chat";
  const { messages, ...rest } = chatRequest(1, asksLogprobs ? { logprobs: 2 } : {});
  const embed = askedFor === "embedding";
  const isChat = askedFor === "chat" || askedFor === "calls";
  const request = isChat ? { messages, ...rest } : { ...rest, prompt: "a", embed };
  try {
    const { answers } = await engine.infer(request, new AbortController().signal);
    JSON.stringify(answers);
    const [{ text, value, toolCalls } = { text: "" }] = answers;
    return JSON.stringify(value ?? toolCalls ?? text);
  } finally {
    await engine.close();
  }
}

/** Waits between tries are a thousandth of the real ones. */
function read(askedFor: "listing" | "file", origin: string, random: Random) {
  const context: SourceContext = {
    clock: {
      ...systemClock,
      schedule: (delayMs, callback) => systemClock.schedule(delayMs / 1000, callback),
    },
    random,
    environment: { HF_ENDPOINT: origin },
    temporaryDirectory: tmpdir(),
  };
  return askedFor === "listing" ? namesOf(context) : contentOf(context, `${origin}/a.txt`);
}

async function namesOf(context: SourceContext): Promise<string[]> {
  const names: string[] = [];
  for await (const { path } of inputStores(context).list("hf://datasets/o/n/")) {
    names.push(path.slice("hf://datasets/o/n/".length));
  }
  return names;
}

async function contentOf(context: SourceContext, url: string): Promise<string> {
  const reader = await inputStores(context).open(url);
  try {
    return Buffer.from(await reader.read(0, 1000)).toString();
  } finally {
    await reader.close();
  }
}

/** A server that answers each request by the seed in its path. */
async function replyingServer() {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    let text = "";
    socket.on("data", async (chunk) => {
      text += chunk.toString("latin1");
      if (!text.includes("\r\n\r\n")) return;
      const seed = /^[A-Z]+ \/(\d+)/.exec(text)?.[1];
      text = "";
      // Where a redirect led.
      if (seed === undefined) return socket.end("HTTP/1.1 404 Not Found\r\n\r\n");
      const { pieces, staysOpen } = hostileReply(Number(seed));
      for (const piece of pieces) await new Promise((sent) => socket.write(piece, sent));
      if (!staysOpen) socket.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const close = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { port, close };
}
