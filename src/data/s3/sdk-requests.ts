import type { Readable } from "node:stream";
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandInput,
  ListObjectsV2Command,
  ListPartsCommand,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
  UploadPartCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import { limits } from "../../foundation/limits.ts";
import {
  type ByteRange,
  type ListingStart,
  type ObjectFacts,
  type ObjectPage,
  type OpenUpload,
  type PartOf,
  type S3Requests,
  type StoredPart,
  type UploadedPart,
  uploadNameKey,
} from "./requests.ts";
import type { BucketSettings } from "./settings.ts";

/** Connections to one object store. */
const maxStoreConnections = 64;

/** A client of the AWS library that tries once. */
export async function connect(settings: BucketSettings): Promise<S3Client> {
  const { endpoint, region, isPathStyle, credentials, checksums } = settings;
  const whenever = checksums ? "WHEN_SUPPORTED" : "WHEN_REQUIRED";
  const options: S3ClientConfig = {
    maxAttempts: 1,
    // With this header, the library opens a connection for each large body and waits a round trip.
    expectContinueHeader: false,
    forcePathStyle: isPathStyle,
    followRegionRedirects: endpoint === undefined,
    requestChecksumCalculation: whenever,
    responseChecksumValidation: whenever,
    requestHandler: {
      connectionTimeout: limits.storeConnectTimeoutMs,
      socketTimeout: limits.storeStallTimeoutMs,
      httpAgent: { maxSockets: maxStoreConnections, keepAlive: true },
      httpsAgent: { maxSockets: maxStoreConnections, keepAlive: true },
    },
    ...(endpoint !== undefined && { endpoint }),
    ...(region !== undefined && { region }),
    ...(credentials && { credentials }),
  };
  const client = new S3Client(options);
  const isPlaced = await client.config.region().then(
    () => true,
    () => false,
  );
  return isPlaced ? client : new S3Client({ ...options, region: "us-east-1" });
}

/** The requests of `bucket` over `client`. */
export class SdkRequests implements S3Requests {
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #checksums: boolean;

  constructor(client: S3Client, bucket: string, checksums: boolean) {
    this.#client = client;
    this.#bucket = bucket;
    this.#checksums = checksums;
  }

  async head(key: string): Promise<ObjectFacts & { metadata: Readonly<Record<string, string>> }> {
    const reply = await this.#client.send(
      new HeadObjectCommand({ Bucket: this.#bucket, Key: key }),
    );
    return {
      key,
      bytes: reply.ContentLength ?? 0,
      etag: entityTag(reply.ETag),
      metadata: reply.Metadata ?? {},
    };
  }

  async get(key: string, range?: ByteRange, etag?: string): Promise<Uint8Array> {
    const reply = await this.#client.send(
      new GetObjectCommand({ Bucket: this.#bucket, Key: key, Range: range && rangeText(range) }),
    );
    // No `If-Match`: a store that returns ETags without quotes does not recognize them later.
    if (etag && reply.ETag && entityTag(reply.ETag) !== etag) {
      (reply.Body as Readable).destroy();
      throw new ReplacedObject();
    }
    const bytes = await reply.Body!.transformToByteArray();
    const wanted = range === undefined ? reply.ContentLength : range.end - range.start;
    if (wanted === undefined || bytes.length === wanted) return bytes;
    throw new TruncatedReply(bytes.length, wanted);
  }

  async list(prefix: string, start?: ListingStart): Promise<ObjectPage> {
    const reply = await this.#client.send(
      new ListObjectsV2Command({
        Bucket: this.#bucket,
        Prefix: prefix,
        ...(start && ("next" in start ? { ContinuationToken: start.next } : {})),
        ...(start && ("behind" in start ? { StartAfter: start.behind } : {})),
      }),
    );
    const objects = (reply.Contents ?? []).map(({ Key = "", Size = 0, ETag = "" }) => ({
      key: Key,
      bytes: Size,
      etag: entityTag(ETag),
    }));
    return { objects, next: reply.IsTruncated ? reply.NextContinuationToken : undefined };
  }

  async put(key: string, data: Uint8Array, isNew: boolean): Promise<void> {
    await this.#client.send(
      new PutObjectCommand({
        Bucket: this.#bucket,
        Key: key,
        Body: data,
        ...(isNew && { IfNoneMatch: "*" }),
      }),
    );
  }

  async copy(from: string, to: string): Promise<void> {
    await this.#client.send(
      new CopyObjectCommand({ Bucket: this.#bucket, Key: to, CopySource: this.#source(from) }),
    );
  }

  async remove(key: string): Promise<void> {
    await this.#client.send(new DeleteObjectCommand({ Bucket: this.#bucket, Key: key }));
  }

  async removeAll(keys: readonly string[]): Promise<void> {
    const reply = await this.#client.send(
      new DeleteObjectsCommand({
        Bucket: this.#bucket,
        Delete: { Objects: keys.map((Key) => ({ Key })), Quiet: true },
      }),
    );
    const failed = reply.Errors?.find(({ Code }) => Code !== "NoSuchKey");
    if (failed) throw new KeptObject(failed.Code, failed.Message);
  }

  async beginUpload(key: string, name: string): Promise<string> {
    const reply = await this.#client.send(
      new CreateMultipartUploadCommand({
        Bucket: this.#bucket,
        Key: key,
        Metadata: { [uploadNameKey]: name },
        ...(this.#checksums && { ChecksumAlgorithm: "CRC32" }),
      }),
    );
    return reply.UploadId!;
  }

  async uploadPart({ key, uploadId, number }: PartOf, data: Uint8Array): Promise<UploadedPart> {
    const reply = await this.#client.send(
      new UploadPartCommand({
        Bucket: this.#bucket,
        Key: key,
        UploadId: uploadId,
        PartNumber: number,
        Body: data,
      }),
    );
    return { number, etag: reply.ETag!, checksum: reply.ChecksumCRC32 };
  }

  async copyPart(
    { key, uploadId, number }: PartOf,
    from: string,
    range: ByteRange,
  ): Promise<UploadedPart> {
    const reply = await this.#client.send(
      new UploadPartCopyCommand({
        Bucket: this.#bucket,
        Key: key,
        UploadId: uploadId,
        PartNumber: number,
        CopySource: this.#source(from),
        CopySourceRange: rangeText(range),
      }),
    );
    const { ETag, ChecksumCRC32 } = reply.CopyPartResult!;
    return { number, etag: ETag!, checksum: ChecksumCRC32 };
  }

  async completeUpload(
    key: string,
    uploadId: string,
    parts: readonly UploadedPart[],
  ): Promise<void> {
    await this.#client.send(
      new CompleteMultipartUploadCommand({
        Bucket: this.#bucket,
        Key: key,
        UploadId: uploadId,
        MultipartUpload: {
          Parts: parts.map(({ number, etag, checksum }) => ({
            PartNumber: number,
            ETag: etag,
            ...(checksum !== undefined && { ChecksumCRC32: checksum }),
          })),
        },
      }),
    );
  }

  async abortUpload(key: string, uploadId: string): Promise<void> {
    await this.#client.send(
      new AbortMultipartUploadCommand({ Bucket: this.#bucket, Key: key, UploadId: uploadId }),
    );
  }

  async listUploads(prefix: string): Promise<OpenUpload[]> {
    const uploads: OpenUpload[] = [];
    let after: Pick<ListMultipartUploadsCommandInput, "KeyMarker" | "UploadIdMarker"> | undefined;
    do {
      const reply = await this.#client.send(
        new ListMultipartUploadsCommand({ Bucket: this.#bucket, Prefix: prefix, ...after }),
      );
      for (const { Key = "", UploadId = "", Initiated } of reply.Uploads ?? []) {
        uploads.push({ key: Key, uploadId: UploadId, begunMs: Initiated?.getTime() ?? 0 });
      }
      const { IsTruncated, NextKeyMarker: KeyMarker, NextUploadIdMarker: UploadIdMarker } = reply;
      after = IsTruncated && KeyMarker ? { KeyMarker, UploadIdMarker } : undefined;
    } while (after);
    return uploads;
  }

  async listParts(key: string, uploadId: string): Promise<StoredPart[]> {
    const parts: StoredPart[] = [];
    let after: string | undefined;
    do {
      const reply = await this.#client.send(
        new ListPartsCommand({
          Bucket: this.#bucket,
          Key: key,
          UploadId: uploadId,
          ...(after !== undefined && { PartNumberMarker: after }),
        }),
      );
      for (const { PartNumber = 0, Size = 0, ETag = "", ChecksumCRC32 } of reply.Parts ?? []) {
        parts.push({ number: PartNumber, bytes: Size, etag: ETag, checksum: ChecksumCRC32 });
      }
      after = reply.IsTruncated ? reply.NextPartNumberMarker : undefined;
    } while (after !== undefined);
    return parts;
  }

  #source(key: string): string {
    return `${this.#bucket}/${key.split("/").map(encodeURIComponent).join("/")}`;
  }
}

/** An ETag in quotes: some stores omit them, at times. */
function entityTag(tag = ""): string {
  const bare = tag.replace(/^W\//, "").replaceAll('"', "");
  return bare === "" ? "" : `"${bare}"`;
}

/** The error of a condition on the ETag that does not hold. */
class ReplacedObject extends Error {
  override readonly name = "PreconditionFailed";
  readonly $metadata = { httpStatusCode: 412 };
}

/** An object that was not removed with others. */
class KeptObject extends Error {
  override readonly name: string;

  constructor(code = "Error", message = "") {
    super(message);
    this.name = code;
  }
}

/** The body ended before its length. */
class TruncatedReply extends Error {
  override readonly name = "TruncatedReply";

  constructor(bytes: number, wanted: number) {
    super(`the body ended after ${bytes} of ${wanted} bytes`);
  }
}

function rangeText({ start, end }: ByteRange): string {
  return `bytes=${start}-${end - 1}`;
}
