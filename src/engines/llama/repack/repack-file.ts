import { type FileHandle, open } from "node:fs/promises";
import { SluiceError } from "../../../foundation/errors.ts";
import { sha256Stream } from "../../../foundation/hashing.ts";
import {
  type BlockFormat,
  blockFormats,
  q8BlockBytes,
  q8BlockWeights,
  q8FileType,
  q8Type,
  toQ8Blocks,
} from "./blocks.ts";
import {
  aligned,
  type GgufHeader,
  ggufHeaderBytes,
  type TensorDescription,
} from "./gguf-header.ts";

/** Bytes of weights that are in memory at a time. */
const chunkBytes = 1024 * 1024;

/** A tensor with where its bytes lie in the source file. */
interface SourceTensor extends TensorDescription {
  start: number;
  bytes: number;
  /** Set where the tensor is repacked. */
  format: BlockFormat | undefined;
}

/** How a model file is repacked, decided before a byte is written. */
export interface RepackPlan {
  /** Tensors in the order of the source file. */
  tensors: readonly SourceTensor[];
  alignment: number;
  /** Header of the new file. */
  header: Buffer;
  /** Bytes of the new file. */
  bytes: number;
  /** Names of the formats that are repacked. */
  formats: readonly string[];
}

/**
 * Plans to turn each tensor of one of `blockFormats` into `Q8_0`. The other tensors stay as they
 * are, and so do the key-value pairs, but for the number of the file type.
 *
 * @param sourceBytes size of the source file.
 * @returns undefined where there is nothing to repack, or where the model is one of several files.
 * @throws SluiceError `MODEL_CORRUPT` where a tensor reaches into the next or beyond the file.
 */
export function planRepacking(header: GgufHeader, sourceBytes: number): RepackPlan | undefined {
  if (header.parts > 1 || !header.tensors.some(({ type }) => type in blockFormats)) return;
  const tensors = sourceTensors(header, sourceBytes);
  const placed = new Map<string, TensorDescription>();
  let offset = 0;
  for (const { name, dimensions, type, format, bytes } of tensors) {
    placed.set(name, { name, dimensions, type: format ? q8Type : type, offset });
    offset += aligned(format ? q8Bytes(bytes, format) : bytes, header.alignment);
  }
  const pairs = Buffer.from(header.pairs);
  if (header.fileTypeAt !== undefined) pairs.writeUInt32LE(q8FileType, header.fileTypeAt);
  const described = header.tensors.map(({ name }) => placed.get(name)!);
  const bytes = ggufHeaderBytes({ ...header, pairs, tensors: described });
  const formats = new Set(tensors.flatMap(({ format }) => format?.name ?? []));
  return {
    tensors,
    alignment: header.alignment,
    header: bytes,
    bytes: bytes.length + offset,
    formats: [...formats].sort(),
  };
}

function sourceTensors(
  { tensors, dataStart }: GgufHeader,
  sourceBytes: number,
): readonly SourceTensor[] {
  const sorted = [...tensors].sort((a, b) => a.offset - b.offset);
  return sorted.map((tensor, index) => {
    const format = blockFormats[tensor.type];
    const start = dataStart + tensor.offset;
    const next = sorted[index + 1];
    const end = next ? dataStart + next.offset : sourceBytes;
    const weights = tensor.dimensions.reduce((product, size) => product * size, 1);
    // What stays need not be understood: it reaches to where the next tensor begins.
    const bytes = format ? (weights / format.blockWeights) * format.blockBytes : end - start;
    if (!Number.isInteger(bytes) || bytes < 0 || start + bytes > end) {
      throw new SluiceError("MODEL_CORRUPT", `tensor ${tensor.name} does not fit into the file`);
    }
    return { ...tensor, start, bytes, format };
  });
}

function q8Bytes(bytes: number, { blockBytes, blockWeights }: BlockFormat): number {
  return (bytes / blockBytes) * (blockWeights / q8BlockWeights) * q8BlockBytes;
}

/**
 * Writes the repacked file and makes it durable; gives its sha256. Memory stays flat, whatever the
 * size of the model.
 *
 * @throws SluiceError `MODEL_CORRUPT` where the source ends early.
 */
export async function writeRepacked(
  sourcePath: string,
  targetPath: string,
  plan: RepackPlan,
): Promise<string> {
  const source = await open(sourcePath, "r");
  const target = await open(targetPath, "w").catch(async (error) => {
    await source.close();
    throw error;
  });
  const hash = sha256Stream();
  let written = 0;
  const write = async (bytes: Uint8Array) => {
    await target.writeFile(bytes);
    hash.update(bytes);
    written += bytes.length;
  };
  try {
    await write(plan.header);
    for (const { start, bytes, format } of plan.tensors) {
      for await (const chunk of chunksOf(source, start, bytes, format?.blockBytes ?? 1)) {
        await write(format ? toQ8Blocks(format, chunk) : chunk);
      }
      await write(Buffer.alloc(aligned(written, plan.alignment) - written));
    }
    await target.sync();
    return hash.digest("hex");
  } finally {
    await source.close();
    await target.close();
  }
}

/** The bytes of a tensor, in pieces of whole blocks. */
async function* chunksOf(
  file: FileHandle,
  start: number,
  bytes: number,
  blockBytes: number,
): AsyncGenerator<Buffer> {
  const most = Math.floor(chunkBytes / blockBytes) * blockBytes;
  for (let done = 0; done < bytes; ) {
    const wanted = Math.min(most, bytes - done);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(wanted), 0, wanted, start + done);
    if (bytesRead < wanted) throw new SluiceError("MODEL_CORRUPT", "it ends within its tensors");
    yield buffer;
    done += wanted;
  }
}
