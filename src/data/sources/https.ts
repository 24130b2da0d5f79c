import type { Dispatcher } from "undici";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import {
  assertWithin,
  isPrivateAllowed,
  lookupWithin,
  type Reach,
} from "../../foundation/reach.ts";
import { type DispatcherFor, downloadDispatcher } from "../../foundation/remote-file.ts";
import { shownPath } from "../../foundation/shown-path.ts";
import type { OpenBounds, OpenHints } from "../open-files.ts";
import { type ReadAheadMemory, readAhead } from "../read-ahead.ts";
import type { RandomReader } from "../storage/storage.ts";
import { FileCopies, type Fill } from "./file-copies.ts";
import { isGlob } from "./glob.ts";
import { type HttpFacts, HttpFile, type HttpFileOptions } from "./http-file.ts";
import type { SourceContext, SourceFile, SourceStore } from "./source-store.ts";

/** Opens files on web servers for all kinds of sources. */
export class HttpFiles {
  readonly #context: SourceContext;
  readonly #memory: ReadAheadMemory;
  readonly #reach: Reach | undefined;
  readonly #copies: FileCopies;
  /** By whether private networks are allowed. */
  readonly #dispatchers = new Map<boolean, Dispatcher>();

  /**
   * @param reach default: everything but the metadata services of clouds, for the user names the
   *   address.
   */
  constructor(context: SourceContext, memory: ReadAheadMemory, reach?: Reach) {
    this.#context = context;
    this.#memory = memory;
    this.#reach = reach;
    this.#copies = new FileCopies(context);
  }

  /**
   * @throws the returned function: SluiceError `FILE_REFUSED` for an address outside of `reach`.
   */
  readonly dispatcher: DispatcherFor = (url) => {
    const isPrivate = this.#reach === undefined || isPrivateAllowed(this.#reach, url);
    assertWithin(url, isPrivate);
    const known = this.#dispatchers.get(isPrivate);
    if (known) return known;
    const made = downloadDispatcher(this.#context.environment, {
      connectTimeoutMs: limits.sourceConnectTimeoutMs,
      stallTimeoutMs: limits.sourceStallTimeoutMs,
      connections: limits.maxSourceConnections,
      lookup: lookupWithin(isPrivate),
    });
    this.#dispatchers.set(isPrivate, made);
    return made;
  };

  file(options: Omit<HttpFileOptions, "dispatcher" | "context">): HttpFile {
    return new HttpFile({ ...options, dispatcher: this.dispatcher, context: this.#context });
  }

  /** The facts with the size. If the server does not say it, the file is downloaded. */
  async facts(path: string, file: HttpFile): Promise<HttpFacts & { bytes: number }> {
    const facts = await file.facts();
    if (facts.bytes !== undefined) return { ...facts, bytes: facts.bytes };
    const copy = await this.#copyOf(path, file, facts.etag);
    await copy.close();
    return { ...facts, bytes: copy.bytes };
  }

  /** @throws SluiceError `INPUT_CHANGED` if the content is not the one that `etag` names. */
  async open(path: string, file: HttpFile, hints: OpenHints): Promise<RandomReader> {
    const { etag, end, bounds } = hints;
    if (etag !== undefined && this.#copies.has(keyOf(path, etag))) {
      return await this.#copyOf(path, file, etag);
    }
    const facts = await file.facts(bounds?.signal);
    if (etag !== undefined && facts.etag !== undefined && etag !== facts.etag) {
      const detail = "the server has another content now";
      throw new SluiceError("INPUT_CHANGED", detail, { file: path });
    }
    const { bytes, hasRanges } = facts;
    if (bytes !== undefined) bounds?.assertBytes(bytes);
    if (!hasRanges || bytes === undefined) {
      return await (bounds === undefined
        ? this.#copyOf(path, file, facts.etag)
        : this.#boundedCopyOf(file, facts.etag, bounds));
    }
    return readAhead(
      {
        bytes,
        ...(end !== undefined && { aheadEnd: end }),
        fetch: (from, to, signal) => file.range(from, to, facts, signal),
      },
      this.#memory,
    );
  }

  #copyOf(path: string, file: HttpFile, etag: string | undefined): Promise<RandomReader> {
    const fill: Fill = (write, restart) => file.whole(etag, write, restart);
    return this.#copies.open(keyOf(path, etag), fill);
  }

  #boundedCopyOf(
    file: HttpFile,
    etag: string | undefined,
    { signal, assertBytes }: OpenBounds,
  ): Promise<RandomReader> {
    return this.#copies.openOwn((write, restart) => {
      let bytes = 0;
      const counted = (chunk: Uint8Array) => {
        bytes += chunk.length;
        assertBytes(bytes);
        write(chunk);
      };
      const anew = () => {
        bytes = 0;
        restart();
      };
      return file.whole(etag, counted, anew, signal);
    });
  }
}

/** The key of a copy: the path and the identity of its content. */
function keyOf(path: string, etag = ""): string {
  return `${path} ${etag}`;
}

/** Files of web servers: `https://` and `http://`. */
export function httpsSource(files: HttpFiles): SourceStore {
  return {
    async find(path) {
      assertAddress(path);
      try {
        const { bytes, modifiedMs, etag } = await files.facts(
          path,
          files.file({ path, url: path }),
        );
        const found: SourceFile = { path, bytes, modifiedMs, ...(etag !== undefined && { etag }) };
        return [found];
      } catch (error) {
        throw isAbsent(error) ? missing(path, error) : error;
      }
    },
    async open(path, hints = {}) {
      parsedAddress(path);
      return await files.open(path, files.file({ path, url: path }), hints);
    },
  };
}

function isAbsent(error: unknown): error is SluiceError {
  return error instanceof SluiceError && error.code === "NOT_FOUND";
}

function missing(path: string, cause: SluiceError): SluiceError {
  const looksLikeGlob = isGlob(new URL(path).pathname);
  const hint = looksLikeGlob
    ? "a web server has no list of its files: name each of them, or give a list file"
    : "check the address: the server has nothing there";
  return new SluiceError("INPUT_MISSING", shownPath(path), { hint, cause });
}

/** @throws SluiceError `INPUT_UNREADABLE` if the path is not a web address. */
function parsedAddress(path: string): URL {
  if (URL.canParse(path)) return new URL(path);
  throw new SluiceError("INPUT_UNREADABLE", "it is not an address", { file: path });
}

/** @throws SluiceError `INPUT_UNREADABLE` if the path is not a web address, or has a password. */
function assertAddress(path: string): void {
  const url = parsedAddress(path);
  if (url.username === "" && url.password === "") return;
  throw new SluiceError("INPUT_UNREADABLE", "the address holds a password", {
    file: `${url.protocol}//${url.host}${url.pathname}`,
    hint: "plans would keep it: give an address without one, or fetch the file by hand",
  });
}
