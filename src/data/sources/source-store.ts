import type { Clock } from "../../foundation/clock.ts";
import type { Random } from "../../foundation/random.ts";
import type { OpenHints } from "../open-files.ts";
import type { S3Context } from "../s3/open.ts";
import type { RandomReader } from "../storage/storage.ts";

/** A file, as its store describes it. */
export interface SourceFile {
  /** Its name in plans: an absolute path or an address. */
  path: string;
  bytes: number;
  /** Milliseconds since 1970, 0 if unknown. It hints at a change but proves none. */
  modifiedMs: number;
  /** The folder in which a glob or a folder's name found it; absent if its own name was given. */
  below?: string;
  /** The server's name for the content, which changes with the content. */
  etag?: string;
}

/** Called for each entry of a folder that is skipped because it is not a file. */
export type LeaveOut = (path: string, what: string) => void;

/** Where input files come from: one implementation for each scheme. */
export interface SourceStore {
  /**
   * The files that a path or glob matches, sorted by path (UTF-16 code units).
   *
   * @param baseDirectory relative local paths start here.
   * @throws SluiceError `INPUT_MISSING`, `INPUT_UNREADABLE`, `INPUT_UNREACHABLE`,
   *   `INPUT_TOO_MANY_FILES` beyond `maxFiles`.
   */
  find(path: string, baseDirectory: string, maxFiles: number): Promise<SourceFile[]>;
  /**
   * All files below a folder, or the file of that name, in any order. Absent if the place cannot be
   * listed.
   *
   * @throws SluiceError as `find`.
   */
  list?(place: string, leaveOut?: LeaveOut): AsyncIterable<SourceFile>;
  /**
   * Opens a file by a path from `find`.
   *
   * @throws SluiceError `NOT_FOUND`, `INPUT_CHANGED`, `INPUT_UNREADABLE`, `INPUT_UNREACHABLE`; so
   *   does its reader.
   */
  open(path: string, hints?: OpenHints): Promise<RandomReader>;
}

/** What inputs need from outside, and the job's options for its stores. */
export interface SourceContext extends S3Context {
  clock: Clock;
  random: Random;
  /**
   * Used are `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`, `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`,
   * and the variables with credentials of object stores.
   */
  environment: Readonly<Record<string, string | undefined>>;
  /** Folder for copies of files that can be read from their start only. */
  temporaryDirectory: string;
}
