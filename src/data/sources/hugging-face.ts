import { isUtf8 } from "node:buffer";
import { SluiceError } from "../../foundation/errors.ts";
import { hubEndpoint, hubPath, hubRefusal, isHubOffline } from "../../foundation/hub.ts";
import { limits } from "../../foundation/limits.ts";
import {
  headerValue,
  type RemoteResponse,
  readBody,
  requestRemoteFile,
} from "../../foundation/remote-file.ts";
import type { HttpFile } from "./http-file.ts";
import type { HttpFiles } from "./https.ts";
import { findListed } from "./listed.ts";
import type { SourceContext, SourceFile, SourceStore } from "./source-store.ts";
import { dropBody, failureOf, withTries } from "./tries.ts";

const maxListingPages = 10_000;

/** A file or glob of a dataset on the hub. */
interface HubPath {
  /** `OWNER/NAME`. */
  repository: string;
  revision: string;
  /** Below the repository. */
  path: string;
  /** What comes before `path`, as written. */
  root: string;
}

/** An entry in the hub's listing of a folder. */
interface TreeEntry {
  type: string;
  path: string;
  size: number;
  /** Identity of the content; for a large file, that of its LFS pointer. */
  oid: string;
  /** The identity and size of a large file's own content. */
  lfs?: { oid: string; size: number };
}

/** Revisions with slashes in their names. */
const namedRevision = "refs/(?:convert|pr)/[^/]+";
const hubAddress = new RegExp(
  `^(?<root>hf://datasets/(?<repository>[\\w.-]+/[\\w.-]+)` +
    `(?:@(?<revision>${namedRevision}|[^/]+))?/)(?<path>.*)$`,
);

/**
 * Reads `hf://datasets/OWNER/NAME[@REVISION]/PATH`.
 *
 * @throws SluiceError `INPUT_UNREADABLE`
 */
export function parseHubPath(address: string): HubPath {
  const groups = hubAddress.exec(address)?.groups;
  if (!groups || !isEncoded(groups.revision ?? "")) {
    throw new SluiceError("INPUT_UNREADABLE", "it names no files of a dataset", {
      file: address,
      hint: "write it as hf://datasets/OWNER/NAME/*.parquet, with @REVISION after NAME if need be",
    });
  }
  const { repository, revision = "main", path, root } = groups as unknown as HubPath;
  return { repository, revision: decodeURIComponent(revision), path, root };
}

function isEncoded(text: string): boolean {
  try {
    return decodeURIComponent(text) !== undefined;
  } catch {
    return false;
  }
}

/**
 * Files of datasets on the Hugging Face hub, or on the server in `HF_ENDPOINT`. `HF_TOKEN` is sent
 * to that server only.
 */
export function huggingFaceSource(files: HttpFiles, context: SourceContext): SourceStore {
  const hub = new Hub(files, context);
  return {
    async find(address, _baseDirectory, maxFiles) {
      const { repository, revision, path, root } = parseHubPath(address);
      const list = (prefix: string, isDeep: boolean) =>
        hub.list(repository, revision, prefix, isDeep);
      return await findListed(path, { root, list }, maxFiles);
    },
    async *list(address) {
      const { repository, revision, path, root } = parseHubPath(address.replace(/\/*$/, "/"));
      // The hub lists folders only, so a file is found in its folder's listing.
      const name = address.endsWith("/") ? path : path.slice(0, -1);
      for await (const file of hub.list(repository, revision, name, true)) {
        const isBelow = file.path === name || file.path.startsWith(path === "/" ? "" : path);
        if (isBelow) yield { ...file, path: root + file.path };
      }
    },
    open: (address, hints = {}) => files.open(address, hub.file(address), hints),
  };
}

class Hub {
  readonly #files: HttpFiles;
  readonly #context: SourceContext;
  readonly #endpoint: string;
  readonly #token: string | undefined;

  constructor(files: HttpFiles, context: SourceContext) {
    this.#files = files;
    this.#context = context;
    this.#endpoint = hubEndpoint(context.environment);
    this.#token = context.environment.HF_TOKEN || undefined;
  }

  file(address: string): HttpFile {
    this.#assertOnline(address);
    const { repository, revision, path } = parseHubPath(address);
    return this.#files.file({
      path: address,
      url: `${this.#endpoint}/datasets/${repository}/resolve/${hubPath(revision, path)}`,
      ...(this.#token !== undefined && { token: this.#token }),
      tagOf: (answer) => this.#contentId(answer),
    });
  }

  /** Files whose path begins with `prefix`; unless `isDeep`, also folders, each with a slash. */
  async *list(
    repository: string,
    revision: string,
    prefix: string,
    isDeep: boolean,
  ): AsyncGenerator<SourceFile> {
    const shown = `hf://datasets/${repository}@${revision}/${prefix}`;
    this.#assertOnline(shown);
    const folder = prefix.slice(0, Math.max(0, prefix.lastIndexOf("/")));
    const place = folder === "" ? encodeURIComponent(revision) : hubPath(revision, folder);
    const tree = `${this.#endpoint}/api/datasets/${repository}/tree/${place}`;
    let url: string | undefined = `${tree}?recursive=${isDeep}`;
    const asked = new Set<string>();
    while (url !== undefined) {
      assertGoesOn(asked, url, shown);
      const page: { entries: TreeEntry[]; next: string | undefined } = await this.#page(url, shown);
      for (const { type, path, size, oid, lfs } of page.entries) {
        if (!path.startsWith(prefix)) continue;
        if (type === "file") {
          yield { path, bytes: lfs?.size ?? size, modifiedMs: 0, etag: lfs?.oid ?? oid };
        } else if (!isDeep) yield { path: `${path}/`, bytes: 0, modifiedMs: 0 };
      }
      url = page.next;
    }
  }

  #page(url: string, shown: string): Promise<{ entries: TreeEntry[]; next: string | undefined }> {
    return withTries(shown, this.#context, async () => {
      const query = { url, ...(this.#token !== undefined && { token: this.#token }) };
      const answer = await requestRemoteFile(query, this.#files.dispatcher);
      if (answer.status !== 200) {
        await dropBody(answer);
        const code = headerValue(answer.headers["x-error-code"]);
        if (code === "EntryNotFound") return { entries: [], next: undefined };
        throw this.#refusal(answer, code, shown);
      }
      const entries = entriesIn(await textOf(answer, shown), shown);
      return { entries, next: this.#nextPage(answer, shown) };
    });
  }

  #nextPage({ headers }: RemoteResponse, file: string): string | undefined {
    const link = /<([^>]+)>\s*;[^,]*rel="?next"?/.exec(headerValue(headers.link) ?? "")?.[1];
    if (link === undefined) return undefined;
    const next = URL.canParse(link, this.#endpoint) ? new URL(link, this.#endpoint) : undefined;
    if (next === undefined) throw badListing("names no address as its next page", file);
    // Requests to the endpoint carry the token.
    if (next.origin === new URL(this.#endpoint).origin) return next.href;
    throw badListing(`continues at another server, ${next.host}`, file);
  }

  #refusal(answer: RemoteResponse, code: string | undefined, file: string): Error {
    const { status } = answer;
    const page = `${this.#endpoint}/datasets/${parseHubPath(file).repository}`;
    const { environment } = this.#context;
    const refusal = hubRefusal({ status, code }, { page, environment });
    if (refusal === undefined) return failureOf(answer, file, this.#context);
    const { isAbsent, reason, hint } = refusal;
    return isAbsent
      ? new SluiceError("INPUT_MISSING", `${file}: ${reason}`, { hint })
      : new SluiceError("INPUT_UNREADABLE", reason, { file, hint });
  }

  /** The identity that the hub names: the servers that it redirects to may name others. */
  #contentId({ url, headers, linkedSha256 }: RemoteResponse): string | undefined {
    if (linkedSha256 !== undefined) return linkedSha256;
    if (new URL(url).origin !== new URL(this.#endpoint).origin) return undefined;
    return /^(?:W\/)?"?([0-9a-f]{40}|[0-9a-f]{64})"?$/.exec(headerValue(headers.etag) ?? "")?.[1];
  }

  #assertOnline(file: string): void {
    if (!isHubOffline(this.#context.environment)) return;
    const hint = "unset it, or name files of this machine";
    throw new SluiceError("INPUT_UNREACHABLE", "HF_HUB_OFFLINE is set", { file, hint });
  }
}

/** Pages of a listing that refer to each other would never end. */
function assertGoesOn(asked: Set<string>, url: string, file: string): void {
  if (asked.has(url)) throw badListing("names a page as its next that was there before", file);
  asked.add(url);
  if (asked.size > maxListingPages) {
    throw badListing(`has more than ${maxListingPages} pages`, file);
  }
}

function entriesIn(text: string, file: string): TreeEntry[] {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    throw badListing("is not JSON", file);
  }
  if (Array.isArray(list) && list.every(isEntry)) return list;
  throw badListing("is not a list of files", file);
}

function isEntry(entry: unknown): entry is TreeEntry {
  const { type, path, size, oid, lfs } = (entry ?? {}) as Partial<Record<string, unknown>>;
  const isNamed = typeof type === "string" && typeof path === "string";
  const large = lfs as Partial<NonNullable<TreeEntry["lfs"]>> | undefined | null;
  const facts = large ? [large.size, large.oid] : [size, oid];
  const isMeasured =
    Number.isSafeInteger(facts[0]) && ["string", "undefined"].includes(typeof facts[1]);
  return isNamed && (type !== "file" || isMeasured);
}

function badListing(detail: string, file: string): SluiceError {
  return new SluiceError("INPUT_UNREADABLE", `the hub's listing ${detail}`, { file });
}

async function textOf(answer: RemoteResponse, file: string): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  await readBody(answer, (chunk) => {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes <= limits.maxListingBytes) return;
    throw badListing(`has a page of more than ${limits.maxListingBytes} bytes`, file);
  });
  const page = Buffer.concat(chunks);
  if (!isUtf8(page)) throw badListing("is not UTF-8", file);
  return page.toString();
}
