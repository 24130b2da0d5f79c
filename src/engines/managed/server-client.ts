import { Agent, request } from "node:http";
import type { Json } from "../../foundation/json.ts";
import { type TextReply, textReply } from "../../foundation/text-reply.ts";

/** Time that one health check may take while a server loads. */
const healthTimeoutMs = 5000;

/** Most characters of a managed server's facts. */
const maxServerReplyChars = 4 * 1024 * 1024;

/** Reads the facts of a server on this machine. */
export class ServerClient {
  readonly #origin: string;
  readonly #headers: Record<string, string>;
  readonly #agent = new Agent({ keepAlive: true });

  /** @param key sent as a bearer token. */
  constructor(origin: string, key: string) {
    this.#origin = origin;
    this.#headers = { authorization: `Bearer ${key}` };
  }

  /** The JSON at a path; undefined if there is none, whatever the reason. */
  async json(path: string): Promise<Json | undefined> {
    try {
      const { status, text } = await this.#get(path);
      return status === 200 ? (JSON.parse(text) as Json) : undefined;
    } catch {
      return undefined;
    }
  }

  /** `unknown`: the answer takes long, as from a busy server. */
  async health(): Promise<"well" | "ill" | "unknown"> {
    try {
      return (await this.#get("/health")).status === 200 ? "well" : "ill";
    } catch (error) {
      return error instanceof TookTooLong ? "unknown" : "ill";
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  #get(path: string): Promise<TextReply> {
    const sent = request(this.#origin + path, {
      headers: this.#headers,
      agent: this.#agent,
      timeout: healthTimeoutMs,
    });
    sent.on("timeout", () => sent.destroy(new TookTooLong()));
    sent.end();
    return textReply(sent, maxServerReplyChars);
  }
}

class TookTooLong extends Error {}
