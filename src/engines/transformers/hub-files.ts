import { mkdir, readFile, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { systemClock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { hubEndpoint } from "../../foundation/hub.ts";
import { limits } from "../../foundation/limits.ts";
import type { Logger } from "../../foundation/logger.ts";
import { systemRandom } from "../../foundation/random.ts";
import type { Environment } from "../../foundation/subprocess.ts";
import { cacheError } from "../models/cache.ts";
import type { FetchOutcome } from "../models/fetch-outcome.ts";
import { withFileLock } from "../models/file-lock.ts";
import { fetchFromHub } from "../models/mirrors.ts";
import { discardPart, fileBytes } from "../models/part-file.ts";
import type { OnnxModel } from "./model-place.ts";

/** Where files of a model come from and go to. */
export interface HubPlace {
  model: OnnxModel & { kind: "hub" };
  /** The folder for files of the hub. */
  cacheDirectory: string;
  /** Variables about the hub and proxies. */
  environment: Environment;
  logger: Logger;
  /** Called every `limits.progressIntervalMs` while files are fetched. */
  onFetch: (bytes: number) => void;
}

/** What the package needs of a response. */
interface FileReply {
  status: number;
  headers: Headers;
  arrayBuffer(): Promise<Uint8Array>;
}

/**
 * A `fetch` for files of one model of the hub, which puts them into the package's cache itself: the
 * package's own fetch begins each file anew after a break.
 *
 * @throws the returned function: SluiceError `MODEL_FORBIDDEN`, `MODEL_UNKNOWN`,
 *   `MODEL_DOWNLOAD_FAILED`, `STORE_FULL`. A file that the repository lacks is status 404, and one
 *   that a mirror refuses after it gave the model's first file is 401 or 403.
 */
export function hubFetch(place: HubPlace): (address: string) => Promise<FileReply> {
  const { model, cacheDirectory, environment, onFetch } = place;
  const { repository, revision: wanted } = model;
  const first = join(cacheDirectory, repository, folderOf(wanted), "config.json");
  const root = `${hubEndpoint(environment)}/${repository}/resolve/`;
  const received = new Map<string, number>();
  let fetching = 0;
  let stopReports = () => {};
  const report = () => {
    onFetch([...received.values()].reduce((sum, bytes) => sum + bytes, 0));
    stopReports = systemClock.schedule(limits.progressIntervalMs, report);
  };
  return async (address) => {
    if (!address.startsWith(root)) throw new SluiceError("MODEL_UNKNOWN", `${address} is foreign`);
    // For some files the package asks for `main`, whatever the revision of the model.
    const [revision = "", ...names] = address.slice(root.length).split("/");
    const folder = folderOf(decodeURIComponent(revision));
    const path = join(cacheDirectory, repository, folder, ...names);
    if (++fetching === 1) report();
    try {
      const outcome = await fetchOnce(address, path, place, (bytes) => received.set(path, bytes));
      if (outcome?.state === "failed") {
        return absentReply(outcome, repository, (await fileBytes(first)) !== undefined);
      }
    } catch (error) {
      throw cacheError(error, cacheDirectory);
    } finally {
      if (--fetching === 0) stopReports();
    }
    const headers = new Headers({ "content-length": `${await fileBytes(path)}` });
    return { status: 200, headers, arrayBuffer: () => readFile(path) };
  };
}

/** The folder of a revision in that of its repository, as the package names it in its cache. */
function folderOf(revision: string): string {
  return revision === "main" ? "" : revision;
}

/** Undefined if another process fetched the file during the wait for its lock. */
async function fetchOnce(
  url: string,
  path: string,
  { model, cacheDirectory, environment, logger }: HubPlace,
  onProgress: (bytes: number) => void,
): Promise<FetchOutcome | undefined> {
  const clock = systemClock;
  const random = systemRandom;
  await mkdir(dirname(path), { recursive: true });
  return withFileLock(`${path}.lock`, { clock, random }, async (assertHeld) => {
    if ((await fileBytes(path)) !== undefined) return undefined;
    const { repository } = model;
    const part = `${path}.part`;
    const context = { clock, random, logger, environment, homeDirectory: cacheDirectory };
    const task = { name: repository, part, expected: {}, context, assertHeld, onProgress };
    const outcome = await fetchFromHub(url, repository, { ...task, hasOtherMirror: false });
    assertHeld();
    if (outcome.state === "fetched") await rename(part, path);
    // What came before a break is kept for the next try.
    if (outcome.state === "fetched" || outcome.kind === "wrong") await discardPart(part);
    return outcome;
  });
}

/**
 * @param isOpen whether other files of the repository could be had.
 * @throws SluiceError unless the repository is there and may lack only this file.
 */
function absentReply(
  outcome: FetchOutcome & { state: "failed" },
  repository: string,
  isOpen: boolean,
): FileReply {
  const { reason, kind, hint, answer } = outcome;
  const isLacking = kind === "absent" && (answer?.code ?? "EntryNotFound") === "EntryNotFound";
  // Some mirrors refuse what they lack; the hub itself would say why it refuses.
  const isRefused = isOpen && kind === "forbidden" && answer?.code === undefined;
  if (isLacking || isRefused) {
    const status = (isRefused && answer?.status) || 404;
    return { status, headers: new Headers(), arrayBuffer: async () => new Uint8Array() };
  }
  const codes = { forbidden: "MODEL_FORBIDDEN", absent: "MODEL_UNKNOWN" } as const;
  const code = kind === undefined || kind === "wrong" ? "MODEL_DOWNLOAD_FAILED" : codes[kind];
  throw new SluiceError(code, `${repository}: ${reason}`, hint === undefined ? {} : { hint });
}
