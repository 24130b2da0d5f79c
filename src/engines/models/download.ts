import { readFile, writeFile } from "node:fs/promises";
import type { Dispatcher } from "undici";
import { backoffMs, demandedWaitMs } from "../../foundation/backoff.ts";
import { sleep } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { jsonObjectIn } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import {
  downloadDispatcher,
  headerValue,
  networkReason,
  type RemoteRequest,
  type RemoteResponse,
  readBody,
  requestRemoteFile,
} from "../../foundation/remote-file.ts";
import { ifThere } from "../../foundation/system-errors.ts";
import { checkFetched, type FetchOutcome, type FetchTask, failed } from "./fetch-outcome.ts";
import { discardPart, fileBytes, PartFile } from "./part-file.ts";

/** Beside a part file: the server and the file that it is the beginning of. */
interface PartNote {
  url: string;
  etag?: string;
}

/** The outcome of one step of a download: finished, interrupted, or to begin again. */
type Step =
  | { next: "end"; outcome: FetchOutcome }
  | { next: "again"; reason: string; retryAfterMs?: number; noConnection?: boolean }
  | { next: "restart"; reason: string };

const downloadTimes = {
  connectTimeoutMs: limits.modelConnectTimeoutMs,
  stallTimeoutMs: limits.modelStallTimeoutMs,
};

/** How an established connection ends. */
const brokenCodes: ReadonlySet<string> = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

/**
 * Downloads one file into `task.part`, from the end of an earlier try if the server still has the
 * same file. An interrupted connection is made again as long as bytes arrive, and for some minutes
 * without any. A failed connection at the start ends the download at once, so that the next mirror
 * gets its turn.
 */
export async function download(query: RemoteRequest, task: FetchTask): Promise<FetchOutcome> {
  const { context } = task;
  const given = context.dispatcher as Dispatcher | undefined;
  const dispatcher = given ?? downloadDispatcher(context.environment, downloadTimes);
  const part = await PartFile.open(task.part, task.assertHeld);
  try {
    return await downloadInto(part, query, task, dispatcher);
  } finally {
    await part.close();
    if (given === undefined) await dispatcher.destroy();
    if ((await fileBytes(task.part)) === 0) {
      task.assertHeld();
      await discardPart(task.part);
    }
  }
}

async function downloadInto(
  part: PartFile,
  query: RemoteRequest,
  task: FetchTask,
  dispatcher: Dispatcher,
): Promise<FetchOutcome> {
  const { clock, random, signal, logger } = task.context;
  let restarts = 0;
  let wasReached = false;
  let maxTries: number = limits.maxDownloadTries;
  for (let tries = 1; ; tries++) {
    signal?.throwIfAborted();
    const bytesBefore = part.bytes;
    const step = await downloadStep(part, query, task, dispatcher);
    if (step.next === "end") return step.outcome;
    const isUnreachable = step.next === "again" && step.noConnection === true;
    if (isUnreachable && !wasReached) return failed(step.reason);
    wasReached = true;
    logger.log("debug", "download interrupted", { model: task.name, reason: step.reason });
    if (step.next === "restart") {
      // The rest of an earlier try may be torn; a fresh copy that is wrong as well stays wrong.
      if (++restarts > 1) return failed(step.reason);
      await part.restart();
      continue;
    }
    if (part.bytes > bytesBefore) {
      tries = 1;
      maxTries = limits.maxResumeTries;
    }
    const isSlow = (step.retryAfterMs ?? 0) > limits.modelStallTimeoutMs;
    // Another mirror is faster than a server that asks to wait for minutes.
    const isGivenUp = isSlow && task.hasOtherMirror && maxTries === limits.maxDownloadTries;
    if (isGivenUp || tries >= maxTries) return failed(step.reason);
    const waitMs = backoffMs(tries, random, undefined, step.retryAfterMs);
    if (waitMs > limits.modelStallTimeoutMs) {
      const facts = { model: task.name, reason: step.reason, seconds: Math.round(waitMs / 1000) };
      logger.log("info", "the download waits before it continues", facts);
    }
    await sleep(clock, waitMs, signal);
  }
}

async function downloadStep(
  part: PartFile,
  query: RemoteRequest,
  task: FetchTask,
  dispatcher: Dispatcher,
): Promise<Step> {
  const { signal } = task.context;
  const resumed = part.bytes;
  const headers = await resumeHeaders(part, query.url, task);
  if (headers === undefined) await part.restart();
  let answer: RemoteResponse;
  try {
    answer = await requestRemoteFile({ ...query, headers: headers ?? {} }, dispatcher, signal);
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof SluiceError) throw error;
    const noConnection = !brokenCodes.has((error as NodeJS.ErrnoException).code ?? "");
    return { next: "again", reason: networkReason(error), noConnection };
  }
  const refusal = await judge(answer, part, task);
  if (refusal) {
    await answer.body.dump();
    return refusal;
  }
  const { expected, totalBytes } = expectations(answer, part, task);
  await noteOrigin(task.part, { url: query.url, etag: strongTag(answer) });
  const broken = await pour(answer, part, task, totalBytes);
  if (broken !== undefined) return { next: "again", reason: broken };
  if (totalBytes !== undefined && part.bytes < totalBytes) {
    return { next: "again", reason: `ended after ${part.bytes} of ${totalBytes} bytes` };
  }
  const outcome = checkFetched(expected, { sha256: part.sha256, bytes: part.bytes });
  if (outcome.state === "failed" && resumed > 0) {
    return { next: "restart", reason: outcome.reason };
  }
  return end(outcome);
}

const end = (outcome: FetchOutcome): Step => ({ next: "end", outcome });

/** Headers that request the rest of a file; none for all of it; undefined for a useless part. */
async function resumeHeaders(
  part: PartFile,
  url: string,
  task: FetchTask,
): Promise<Record<string, string> | undefined> {
  if (part.bytes === 0) return {};
  const note = await readNote(task.part);
  const { sha256, bytes } = task.expected;
  if (bytes !== undefined && part.bytes > bytes) return undefined;
  const range = { range: `bytes=${part.bytes}-` };
  if (note?.url === url && note.etag !== undefined) return { ...range, "if-range": note.etag };
  // With a pinned sha256, any server may continue the file: a wrong mixture is detected.
  return sha256 === undefined ? undefined : range;
}

/** The reaction to an answer without bytes of the file; undefined if it has them. */
async function judge(
  answer: RemoteResponse,
  part: PartFile,
  task: FetchTask,
): Promise<Step | undefined> {
  const { status, isFirstHost } = answer;
  const code = headerValue(answer.headers["x-error-code"]);
  if (status === 200) {
    if (part.bytes > 0) await part.restart();
  } else if (status === 206) {
    const start = /^bytes (\d+)-/.exec(headerValue(answer.headers["content-range"]) ?? "")?.[1];
    if (Number(start) !== part.bytes) {
      return { next: "restart", reason: "the server sent another range than the request named" };
    }
  } else if (status === 416) {
    const whole = checkFetched(task.expected, { sha256: part.sha256, bytes: part.bytes });
    if (task.expected.sha256 !== undefined && whole.state === "fetched") return end(whole);
    return { next: "restart", reason: "the server has fewer bytes than were fetched before" };
  } else if (isFirstHost && (status === 401 || status === 403)) {
    return end(failed(`HTTP ${status}`, "forbidden", { status, code }));
  } else if (status === 404 || status === 410) {
    const said = isFirstHost ? { status, code } : undefined;
    return end(failed(`HTTP ${status}`, "absent", said));
  } else if (status === 429 || status >= 500) {
    const retryAfterMs = demandedWaitMs(answer.headers, task.context.clock.now());
    return { next: "again", reason: `HTTP ${status}`, retryAfterMs };
  } else {
    return end(failed(`HTTP ${status}`));
  }
  return mismatch(answer, part, task);
}

/** A file that cannot be the right one is refused before its bytes are fetched. */
function mismatch(answer: RemoteResponse, part: PartFile, task: FetchTask): Step | undefined {
  const { sha256, bytes } = task.expected;
  const { linkedSha256 } = answer;
  if (sha256 !== undefined && linkedSha256 !== undefined && linkedSha256 !== sha256) {
    return end(failed(`the file's sha256 is ${linkedSha256}, not ${sha256}`));
  }
  const { totalBytes } = expectations(answer, part, { ...task, expected: {} });
  if (bytes !== undefined && totalBytes !== undefined && totalBytes !== bytes) {
    return end(failed(`the file has ${totalBytes} bytes, not ${bytes}`));
  }
  return undefined;
}

function expectations(answer: RemoteResponse, part: PartFile, task: FetchTask) {
  const { linkedSha256, linkedBytes, headers } = answer;
  const length = headerValue(headers["content-length"]);
  const sent = length === undefined ? undefined : Number(length) + part.bytes;
  const totalBytes = task.expected.bytes ?? sent ?? linkedBytes;
  return { expected: { sha256: linkedSha256, ...task.expected }, totalBytes };
}

/** Writes the body. Returns a reason if the connection broke; throws errors of the disk. */
async function pour(
  answer: RemoteResponse,
  part: PartFile,
  task: FetchTask,
  totalBytes: number | undefined,
): Promise<string | undefined> {
  task.onProgress(part.bytes, totalBytes);
  const isTooLong = () => totalBytes !== undefined && part.bytes > totalBytes;
  let diskFault: unknown;
  try {
    await readBody(answer, (chunk) => {
      try {
        part.append(chunk);
      } catch (error) {
        diskFault = error;
        throw error;
      }
      task.onProgress(part.bytes, totalBytes);
      if (isTooLong()) throw new Error("it has more bytes than were promised");
    });
    return undefined;
  } catch (error) {
    if (diskFault !== undefined) throw diskFault;
    // Its checksum will not be the right one.
    if (isTooLong()) return undefined;
    task.context.signal?.throwIfAborted();
    return networkReason(error);
  }
}

function strongTag(answer: RemoteResponse): string | undefined {
  const tag = headerValue(answer.headers.etag);
  return tag?.startsWith('"') ? tag : undefined;
}

async function noteOrigin(part: string, note: PartNote): Promise<void> {
  await writeFile(`${part}.json`, `${JSON.stringify(note)}\n`);
}

async function readNote(part: string): Promise<PartNote | undefined> {
  const text = await ifThere(readFile(`${part}.json`, "utf8"));
  return text === undefined ? undefined : (jsonObjectIn(text) as PartNote | undefined);
}
