import type { Clock } from "../../foundation/clock.ts";
import type { Random } from "../../foundation/random.ts";
import type { OpenHints } from "../open-files.ts";
import type { S3Context } from "../s3/open.ts";
import type { RandomReader } from "../storage/storage.ts";

/** A file as the place where it lies knows it. */
export interface SourceFile {
  /** As plans name it: an absolute path, or an address. */
  path: string;
  bytes: number;
  /** Milliseconds since 1970, 0 where nobody tells: a hint of a change, never a proof. */
  modifiedMs: number;
  /** The folder that a glob, or the name of a folder, found it in or below; absent for a name. */
  below?: string;
  /** What the server says of its content, and says otherwise once that has changed. */
  etag?: string;
}

/** Told of each entry of a folder that is left out because it is not a file. */
export type LeaveOut = (path: string, what: string) => void;

/** A place that input files lie in: one implementation a scheme. */
export interface SourceStore {
  /**
   * The files that a path or a glob means, sorted by path (UTF-16 code units).
   *
   * @param baseDirectory what relative paths of this machine start from.
   * @throws SluiceError `INPUT_MISSING`, `INPUT_UNREADABLE`, `INPUT_UNREACHABLE`,
   *   `INPUT_TOO_MANY_FILES` beyond `maxFiles`.
   */
  find(path: string, baseDirectory: string, maxFiles: number): Promise<SourceFile[]>;
  /**
   * All files below a folder, or the file of that name; in any order. Absent where nobody lists.
   *
   * @throws SluiceError as `find`.
   */
  list?(place: string, leaveOut?: LeaveOut): AsyncIterable<SourceFile>;
  /**
   * Opens a file by the path that `find` gave.
   *
   * @throws SluiceError `NOT_FOUND`, `INPUT_CHANGED`, `INPUT_UNREADABLE`, `INPUT_UNREACHABLE`; its
   *   reader throws them as well.
   */
  open(path: string, hints?: OpenHints): Promise<RandomReader>;
}

/** What inputs may use of the outside world, and what the job says of its stores. */
export interface SourceContext extends S3Context {
  clock: Clock;
  random: Random;
  /**
   * Read are `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`, `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`,
   * and what names credentials of object stores.
   */
  environment: Readonly<Record<string, string | undefined>>;
  /** Folder for copies of files that can be read from their start only. */
  temporaryDirectory: string;
}
