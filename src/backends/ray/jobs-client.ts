import { readFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { join } from "node:path";
import { withBackoff } from "../../foundation/backoff.ts";
import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { Random } from "../../foundation/random.ts";
import { type TextReply, textReply } from "../../foundation/text-reply.ts";
import type { Environment } from "../context.ts";

/** Silence of a connection after which a request counts as lost. */
const maxSilenceMs = 30_000;
const maxTries = 4;
const backoff = { baseMs: 500, maxMs: 4000 };
/** The end of a log is kept, and all other answers are short. */
const maxReplyChars = 64 * 1024 * 1024;

/** A job as Ray's dashboard tells of it. */
export interface RayJob {
  submission_id: string | null;
  status: "PENDING" | "RUNNING" | "STOPPED" | "SUCCEEDED" | "FAILED";
  message?: string | null;
  metadata?: Record<string, string> | null;
  entrypoint?: string | null;
  driver_exit_code?: number | null;
  driver_info?: { node_ip_address?: string } | null;
}

/** What is submitted: the body of the request. */
export interface RaySubmission {
  submission_id: string;
  entrypoint: string;
  runtime_env: Record<string, unknown>;
  metadata: Record<string, string>;
}

export interface RayJobsOptions {
  address: string;
  /** Names the token, as for Ray's own programs. */
  environment: Environment;
  clock: Clock;
  random: Random;
  /** Default 30 s. */
  maxSilenceMs?: number;
}

/**
 * Ray's REST interface for jobs. Each request may be sent again: jobs and packages have names that
 * the caller gives them. `fetch` sends headers by which Ray takes it for a browser.
 *
 * @throws SluiceError `RAY_UNREACHABLE`, and `SCHEDULER_REFUSED` with Ray's own words.
 */
export class RayJobsClient {
  readonly #options: RayJobsOptions;
  #headers: Promise<Record<string, string>> | undefined;

  constructor(options: RayJobsOptions) {
    this.#options = options;
  }

  /** All jobs that the cluster remembers. */
  async jobs(): Promise<RayJob[]> {
    return this.#json(await this.#ask("GET", "/api/jobs/"));
  }

  /** Undefined if the cluster does not know it. */
  async job(id: string): Promise<RayJob | undefined> {
    const reply = await this.#ask("GET", `/api/jobs/${id}`, [404]);
    return reply.status === 404 ? undefined : this.#json(reply);
  }

  /** Uploads a zip archive, unless it is there. @returns its address for `working_dir`. */
  async upload(name: string, archive: Uint8Array): Promise<string> {
    const path = `/api/packages/gcs/${name}`;
    const { status } = await this.#ask("GET", path, [404]);
    if (status === 404) await this.#ask("PUT", path, [], archive);
    return `gcs://${name}`;
  }

  /** Submits a job, unless there is one of that id. */
  async submit(submission: RaySubmission): Promise<void> {
    await this.#ask("POST", "/api/jobs/", ["exists"], Buffer.from(JSON.stringify(submission)));
  }

  /** Undefined if the cluster does not know the job. */
  async logs(id: string): Promise<string | undefined> {
    const reply = await this.#ask("GET", `/api/jobs/${id}/logs`, [404]);
    return reply.status === 404 ? undefined : this.#json<{ logs?: string }>(reply).logs;
  }

  /** Ends a job: SIGTERM, and SIGKILL after 3 s. */
  async stop(id: string): Promise<void> {
    await this.#ask("POST", `/api/jobs/${id}/stop`, [404]);
  }

  #json<T>({ text }: TextReply): T {
    try {
      return JSON.parse(text) as T;
    } catch {
      const { address } = this.#options;
      throw new SluiceError("SCHEDULER_REFUSED", `no dashboard of Ray answers at ${address}`);
    }
  }

  async #ask(
    method: string,
    path: string,
    expected: readonly (number | "exists")[] = [],
    body?: Uint8Array,
  ): Promise<TextReply> {
    const { address, clock, random } = this.#options;
    this.#headers ??= headersFor(this.#options.environment);
    const headers = await this.#headers;
    const send = async () => {
      const reply = await this.#send(method, path, headers, body);
      const { status, text } = reply;
      const isExpected = expected.some((each) =>
        each === "exists" ? /already exists/.test(text) : each === status,
      );
      if ((status >= 200 && status < 300) || isExpected) return reply;
      throw refusal(`${method} ${path}`, reply);
    };
    try {
      const isTransient = (error: unknown) =>
        !(error instanceof SluiceError && !error.retryAfterMs);
      return await withBackoff(send, { clock, random, maxTries, backoff, isTransient });
    } catch (error) {
      if (error instanceof SluiceError) throw error;
      throw new SluiceError("RAY_UNREACHABLE", `${address}: ${(error as Error).message}`, {
        hint: "from outside the cluster, ray.address is the address of its dashboard, as http://head:8265",
        cause: error,
      });
    }
  }

  #send(
    method: string,
    path: string,
    headers: Record<string, string>,
    body?: Uint8Array,
  ): Promise<TextReply> {
    const { address, maxSilenceMs: timeout = maxSilenceMs } = this.#options;
    const url = new URL(address.replace(/\/+$/, "") + path);
    const request = url.protocol === "https:" ? httpsRequest : httpRequest;
    const length = { "content-length": String(body?.length ?? 0) };
    const sent = request(url, { method, timeout, headers: { ...headers, ...length } });
    sent.on("timeout", () => sent.destroy(new Error(`no answer within ${timeout / 1000} s`)));
    sent.end(body);
    return textReply(sent, maxReplyChars);
  }
}

/** Why Ray did not do it; with a wait if it may the next time. */
function refusal(what: string, { status, text }: TextReply): SluiceError {
  // Answers to faults are the stacks of Python, whose last line says why.
  const said = text.trim().split("\n").at(-1)?.slice(0, 500) ?? "";
  const isDenied = status === 401 || status === 403;
  const isTooLarge = status === 413;
  return new SluiceError("SCHEDULER_REFUSED", `${what}: ${status} ${said}`, {
    ...(isDenied && { hint: "set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to the cluster's token" }),
    ...(isTooLarge && { hint: "Ray takes packages of up to 100 MiB: see docs/backend-ray.md" }),
    ...(status >= 500 && { retryAfterMs: backoff.baseMs }),
  });
}

/** The token is where Ray's own programs look for it. */
async function headersFor(environment: Environment): Promise<Record<string, string>> {
  const { RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH, HOME = "/" } = environment;
  const path = RAY_AUTH_TOKEN_PATH || join(HOME, ".ray/auth_token");
  const token = RAY_AUTH_TOKEN || (await readFile(path, "utf8").catch(() => "")).trim();
  return { "user-agent": "sluice", ...(token && { authorization: `Bearer ${token}` }) };
}
