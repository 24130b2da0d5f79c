import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, crc32, deflateRawSync, gzipSync, zstdCompressSync } from "node:zlib";
import { parquetMetadata } from "hyparquet";
import { type Random, randomInteger, seededRandom } from "../../src/foundation/random.ts";
import { withFooter } from "../data/formats/parquet/other-footer.ts";
import { ggufFile, pair } from "../engines/tiny-gguf.ts";

/** A file that is as it should be, by what it is read with. */
interface WholeFile {
  name: string;
  content: Buffer;
}

/** A file that was whole once. */
export interface HostileFile {
  /** As its whole file; the ending tells how it is read. */
  name: string;
  content: Buffer;
  mutation: string;
  whole: Buffer;
  /** True where a count was changed and nothing else: no row may be missing without a word. */
  isCount: boolean;
}

const golden = join(import.meta.dirname, "../golden");

/** Member of the zip archives, as a wheel has a model. */
export const zipMember = "tiny/tiny.gguf";

/** A zip archive of one member, which stands in it twice: before it and in the list at the end. */
export function zipOf(name: string, content: Buffer): Buffer {
  const packed = deflateRawSync(content);
  const path = Buffer.from(name);
  const facts = Buffer.alloc(26);
  facts.writeUInt16LE(20, 0);
  facts.writeUInt16LE(8, 4);
  facts.writeUInt32LE(crc32(content), 10);
  facts.writeUInt32LE(packed.length, 14);
  facts.writeUInt32LE(content.length, 18);
  facts.writeUInt16LE(path.length, 22);
  const local = Buffer.concat([Buffer.from("PK\x03\x04", "latin1"), facts, path, packed]);
  const mark = Buffer.from("PK\x01\x02\x14\x00", "latin1");
  const central = Buffer.concat([mark, facts, Buffer.alloc(14), path]);
  const end = Buffer.alloc(22);
  end.write("PK\x05\x06", 0, "latin1");
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(local.length, 16);
  return Buffer.concat([local, central, end]);
}

function wholeGguf(): Buffer {
  const pairs = [
    pair.text("general.architecture", "llama"),
    pair.uint32("llama.context_length", 64),
    pair.uint32("general.alignment", 32),
    pair.texts("tokenizer.ggml.tokens", ["<s>", "a", "b"]),
    pair.floats("tokenizer.ggml.scores", [0, -1, -2]),
    pair.uint16("split.count", 1),
    pair.bool("tokenizer.ggml.add_bos_token", true),
  ];
  const data = Buffer.alloc(256, 7);
  const tensors = ["token_embd.weight", "output.weight"].map((name) => ({
    name,
    dimensions: [8, 8],
    type: 0,
    data,
  }));
  return ggufFile(pairs, tensors);
}

/** One of each format, encoding and compression; tables count more, for they have more forms. */
function wholeFiles(): WholeFile[] {
  const of = (folder: string, endings: RegExp) =>
    readdirSync(join(golden, folder))
      .filter((name) => endings.test(name))
      .map((name) => ({ name, content: readFileSync(join(golden, folder, name)) }));
  const tables = [
    ...of("parquet", /\.parquet$/),
    ...of("arrow", /^(?!union).*\.(arrow|arrows|feather)$/),
  ];
  const texts = of("formats", /\.(csv|json|jsonl|tsv)$/);
  const packed = texts.flatMap(({ name, content }) => [
    { name: `${name}.gz`, content: gzipSync(content) },
    { name: `${name}.zst`, content: zstdCompressSync(content) },
    { name: `${name}.br`, content: brotliCompressSync(content) },
  ]);
  const gguf = wholeGguf();
  const others = [
    { name: "tiny.gguf", content: gguf },
    { name: "tiny.whl", content: zipOf(zipMember, gguf) },
  ];
  return [...tables, ...tables, ...tables, ...texts, ...packed, ...others, ...others, ...others];
}

const files = wholeFiles();

/** The file of a seed: each seed gives the same one, everywhere. */
export function hostileFile(seed: number): HostileFile {
  const random = seededRandom(seed);
  const { name, content: whole } = files[randomInteger(random, files.length)]!;
  const kinds = Object.keys(mutations) as (keyof typeof mutations)[];
  const mutation = kinds[randomInteger(random, kinds.length)]!;
  const content = mutations[mutation](Buffer.from(whole), random, name);
  return { name, content, mutation, whole, isCount: mutation === "count" };
}

const mutations = {
  flip: (content: Buffer, random: Random) => {
    for (let count = 1 + randomInteger(random, 4); count > 0; count--) {
      const at = randomInteger(random, content.length);
      content[at]! ^= 1 << randomInteger(random, 8);
    }
    return content;
  },
  byte: (content: Buffer, random: Random) => {
    content[randomInteger(random, content.length)] = pick(random, [0, 1, 0x7f, 0x80, 0xfe, 0xff]);
    return content;
  },
  // Most of what is read first stands at the end of a table, and at the start of other files.
  edge: (content: Buffer, random: Random) => {
    const distance = randomInteger(random, Math.min(content.length, 400));
    const at = random.next() < 0.5 ? distance : content.length - 1 - distance;
    content[at] = randomInteger(random, 256);
    return content;
  },
  cut: (content: Buffer, random: Random) => {
    const at = randomInteger(random, content.length);
    return random.next() < 0.7 ? content.subarray(0, at) : content.subarray(at);
  },
  gap: (content: Buffer, random: Random) => {
    const [start, end] = span(content, random);
    return Buffer.concat([content.subarray(0, start), content.subarray(end)]);
  },
  swap: (content: Buffer, random: Random) => {
    const [start, end] = span(content, random);
    const [to] = span(content, random);
    const moved = Buffer.from(content.subarray(start, end));
    content.copy(content, start, to, to + moved.length);
    moved.copy(content, to);
    return content;
  },
  number: (content: Buffer, random: Random) => {
    const at = randomInteger(random, Math.max(1, content.length - 4));
    if (content.length < 4) return content;
    const odd = [0, 1, -1, 2 ** 31 - 1, -(2 ** 31), 0x7ffffff0, randomInteger(random, 65_536)];
    content.writeInt32LE(pick(random, odd), at);
    return content;
  },
  // The longest numbers of variable length: counts of runs, lengths of texts.
  run: (content: Buffer, random: Random) => {
    const at = randomInteger(random, content.length);
    const runs = ["feffffff0f", "ffffffff0f", "ffffffffffffffffff01", "00000000", "8080808001"];
    Buffer.from(pick(random, runs), "hex").copy(content, at);
    return content;
  },
  count: (content: Buffer, random: Random, name: string) =>
    name.endsWith(".parquet") ? otherCount(content, random) : otherNumber(content, random),
};

function pick<Value>(random: Random, values: readonly Value[]): Value {
  return values[randomInteger(random, values.length)]!;
}

function span(content: Buffer, random: Random): [start: number, end: number] {
  const start = randomInteger(random, content.length);
  return [start, Math.min(content.length, start + 1 + randomInteger(random, 200))];
}

/** Changes one count of a footer, whichever. */
function otherCount(content: Buffer, random: Random): Buffer {
  const { row_groups } = parquetMetadata(new Uint8Array(content));
  const number = randomInteger(random, row_groups.length);
  const column = randomInteger(random, row_groups[number]!.columns.length);
  const other = (count: bigint) =>
    pick(random, [0n, 1n, -1n, count - 1n, count + 1n, count * 2n, 2n ** 31n, 2n ** 62n]);
  const kind = randomInteger(random, 5);
  return withFooter(content, (footer) => {
    const group = footer.row_groups[number]!;
    const meta = group.columns[column]!.meta_data!;
    if (kind === 0) footer.num_rows = other(footer.num_rows);
    else if (kind === 1) group.num_rows = other(group.num_rows);
    else if (kind === 2) meta.num_values = other(meta.num_values);
    else if (kind === 3) footer.row_groups.splice(number, 1);
    else group.columns.splice(column, 1);
  });
}

/** Changes a number of 32 bits that may be a count: of rows, values, entries, bytes. */
function otherNumber(content: Buffer, random: Random): Buffer {
  const places: number[] = [];
  for (let at = 0; at + 4 <= content.length; at += 4) {
    const value = content.readInt32LE(at);
    if (value > 0 && value <= 200) places.push(at);
  }
  if (places.length === 0) return content;
  const at = pick(random, places);
  const value = content.readInt32LE(at);
  content.writeInt32LE(pick(random, [0, 1, value - 1, value + 1, value * 2, -1]), at);
  return content;
}
