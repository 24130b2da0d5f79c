/** Name of the metadata by which a multipart upload is known again. */
export const uploadNameKey = "sluice-upload";

/** What is known of a stored object. */
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

/** Bytes `start` up to `end`, not included. */
export interface ByteRange {
  start: number;
  end: number;
}

/** A part that was uploaded, as its upload's completion names it. */
export interface UploadedPart {
  number: number;
  etag: string;
  /** CRC-32 in base64, where the client sent one. */
  checksum: string | undefined;
}

/** A part that an open upload has. */
export interface StoredPart extends UploadedPart {
  bytes: number;
}

/** An upload that was begun, with the parts of it that are right: the first ones. */
export interface BegunUpload {
  uploadId: string;
  parts: readonly UploadedPart[];
}

/**
 * The requests of one bucket, each sent once: whoever calls tries again. They throw what the
 * library throws; `faults.ts` reads it.
 */
export interface S3Requests {
  head(key: string): Promise<ObjectFacts & { metadata: Readonly<Record<string, string>> }>;
  /** The object, or a range of it; `etag`: only while it is this content. */
  get(key: string, range?: ByteRange, etag?: string): Promise<Uint8Array>;
  list(prefix: string, after: string | undefined): Promise<ObjectPage>;
  put(key: string, data: Uint8Array, isNew: boolean): Promise<void>;
  copy(from: string, to: string): Promise<void>;
  remove(key: string): Promise<void>;
  /** Begins a multipart upload and gives its id. `name` is kept as metadata of the object. */
  beginUpload(key: string, name: string): Promise<string>;
  uploadPart(upload: PartOf, data: Uint8Array): Promise<UploadedPart>;
  copyPart(upload: PartOf, from: string, range: ByteRange): Promise<UploadedPart>;
  completeUpload(key: string, uploadId: string, parts: readonly UploadedPart[]): Promise<void>;
  abortUpload(key: string, uploadId: string): Promise<void>;
  listUploads(prefix: string): Promise<OpenUpload[]>;
  /** All parts of an upload, by number. */
  listParts(key: string, uploadId: string): Promise<StoredPart[]>;
}

/** Which part of which upload; numbers are from 1. */
export interface PartOf {
  key: string;
  uploadId: string;
  number: number;
}
