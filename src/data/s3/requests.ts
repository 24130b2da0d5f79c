/** Metadata key by which an interrupted multipart upload is recognized. */
export const uploadNameKey = "sluice-upload";

/** Key, size and ETag of a stored object. */
export interface ObjectFacts {
  key: string;
  bytes: number;
  /** Changes whenever the content does. */
  etag: string;
}

/** One page of a listing. */
export interface ObjectPage {
  objects: ObjectFacts[];
  /** Undefined on the last page. */
  next: string | undefined;
}

/** A multipart upload that is neither complete nor aborted. */
export interface OpenUpload {
  key: string;
  uploadId: string;
  /** When it was begun, in milliseconds since 1970 by the store's clock. */
  begunMs: number;
}

/** Bytes from `start` up to, but without, `end`. */
export interface ByteRange {
  start: number;
  end: number;
}

/** An uploaded part, as the completion of its upload names it. */
export interface UploadedPart {
  number: number;
  etag: string;
  /** CRC-32 in base64, if the client sent one. */
  checksum: string | undefined;
}

/** A part that the store has of an open upload. */
export interface StoredPart extends UploadedPart {
  bytes: number;
}

/** An open upload, with its leading parts that hold the right content. */
export interface BegunUpload {
  uploadId: string;
  parts: readonly UploadedPart[];
}

/** Most keys of one request to remove objects. Source: DeleteObjects in the S3 API reference. */
export const maxKeysOfRemoval = 1000;

/** Where a listing begins: the `next` of its page before, or behind a key. */
export type ListingStart = { next: string } | { behind: string };

/**
 * The requests of one bucket. Each is sent once; the caller tries again. They throw the library's
 * errors; `faults.ts` interprets them.
 */
export interface S3Requests {
  head(key: string): Promise<ObjectFacts & { metadata: Readonly<Record<string, string>> }>;
  /** The object or a range of it. With `etag`, fails if the content is another one. */
  get(key: string, range?: ByteRange, etag?: string): Promise<Uint8Array>;
  /** @param start default: the first of its objects. */
  list(prefix: string, start?: ListingStart): Promise<ObjectPage>;
  put(key: string, data: Uint8Array, isNew: boolean): Promise<void>;
  copy(from: string, to: string): Promise<void>;
  remove(key: string): Promise<void>;
  /** Removes up to `maxKeysOfRemoval` objects; absent ones are fine. */
  removeAll(keys: readonly string[]): Promise<void>;
  /** Begins a multipart upload and returns its id. `name` is kept as metadata of the object. */
  beginUpload(key: string, name: string): Promise<string>;
  uploadPart(upload: PartOf, data: Uint8Array): Promise<UploadedPart>;
  copyPart(upload: PartOf, from: string, range: ByteRange): Promise<UploadedPart>;
  completeUpload(key: string, uploadId: string, parts: readonly UploadedPart[]): Promise<void>;
  abortUpload(key: string, uploadId: string): Promise<void>;
  listUploads(prefix: string): Promise<OpenUpload[]>;
  /** All parts of an upload, by number. */
  listParts(key: string, uploadId: string): Promise<StoredPart[]>;
}

/** A part of an upload; numbers start at 1. */
export interface PartOf {
  key: string;
  uploadId: string;
  number: number;
}
