import type { Command } from "commander";
import type { ResultFormat } from "../../data/formats/result-format.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { silentLogger } from "../../foundation/logger.ts";
import { nearest } from "../../foundation/suggest.ts";
import type { ChunkSize, ChunksProgress, WrittenChunks } from "../../run/chunks/write-chunks.ts";
import { counted, grouped } from "../../terminal/quantities.ts";
import { type CliIo, writeJson } from "../io.ts";
import { withStoreFlags } from "../store-flags.ts";

interface ShardFlags {
  output: string;
  shards?: string;
  rows?: string;
  workers?: string;
  format?: string;
  compression?: string;
  inputFormat?: string;
  list?: boolean;
  columns?: string;
  maxLineBytes?: string;
  overwrite?: boolean;
}

/** Time between two lines of progress. */
const progressIntervalMs = 2000;

/** `sluice shard INPUT --shards 200 --output chunks/`: cuts inputs into equal chunks. */
export function register(command: Command, given: CliIo): void {
  const io = withStoreFlags(command, given);
  command
    .argument("<input...>", "files or globs, here or at s3://, r2://, gs://, https:// or hf://")
    .requiredOption("--output <folder>", "where the chunks go: a folder, or s3://BUCKET/PREFIX")
    .option("--shards <count>", "how many chunks; their sizes differ by at most one row")
    .option("--rows <count>", "rows of each chunk, the last may have fewer; instead of --shards")
    .option("--workers <count>", "write workers/0.txt, 1.txt, …: an equal share of them for each")
    .option("--format <name>", "jsonl, json, csv, tsv or parquet; default: jsonl")
    .option("--compression <name>", "of text: gzip, zstd, brotli; of Parquet also snappy, none")
    .option("--input-format <name>", "format of the inputs; default: by their extensions")
    .option("--list", "the inputs are lists of files, one path on each line")
    .option("--columns <names>", "fields that rows keep, separated by commas; default: all")
    .option("--max-line-bytes <count>", "longest line of the inputs")
    .option("--overwrite", "remove the chunks in the folder, and no other file")
    .addHelpText("after", helpText)
    .action((inputs: string[], flags: ShardFlags) => shard(inputs, flags, io));
}

const helpText = `
It writes part_0.jsonl, part_1.jsonl, …, and metadata.txt, a list of them that jobs read:

  sluice shard chats.parquet --shards 200 --output chunks --workers 16
  sluice run --input-list chunks/metadata.txt …        all of it
  sluice run --input-list chunks/workers/3.txt …       the share of one of 16 machines

From JSONL to JSONL, lines are carried over byte for byte. The same command again does nothing, or
continues after a kill. The last line is JSON. See docs/chunks.md.`;

async function shard(inputs: readonly string[], flags: ShardFlags, io: CliIo): Promise<void> {
  const [{ runDependencies }, { absoluteLocation }, { formatNames }, { limits }, { writeChunks }] =
    await Promise.all([
      import("../../api/run-dependencies.ts"),
      import("../../data/storage/open.ts"),
      import("../../data/formats/registry.ts"),
      import("../../foundation/limits.ts"),
      import("../../run/chunks/write-chunks.ts"),
    ]);
  const { maxLineBytes: longest, inputFormat, list, columns } = flags;
  if (inputFormat !== undefined) assertOneOf("--input-format", inputFormat, formatNames);
  const maxLineBytes = countOf("--max-line-bytes", longest) ?? limits.maxLineBytes;
  const of = { ...(inputFormat && { format: inputFormat }), ...(list && { list }), maxLineBytes };
  const found = await writeChunks(
    {
      sources: inputs.map((path) => ({ path, ...of })),
      baseDirectory: io.workingDirectory,
      output: absoluteLocation(io.workingDirectory, flags.output),
      size: sizeOf(flags),
      workers: countOf("--workers", flags.workers) ?? 0,
      format: await formatOf(flags),
      ...(columns !== undefined && { columns: columns.split(",").map((name) => name.trim()) }),
      maxLineBytes,
      overwrite: flags.overwrite ?? false,
      onProgress: progressTo(io),
    },
    runDependencies(io, silentLogger),
  );
  for (const line of await notesOf(found)) io.stderr.write(`${line}\n`);
  await writeJson(io, found);
}

function sizeOf({ shards, rows }: ShardFlags): ChunkSize {
  if ((shards === undefined) === (rows === undefined)) {
    throw new SluiceError("USAGE", "give exactly one of --shards and --rows");
  }
  const chunks = countOf("--shards", shards);
  return chunks === undefined ? { rows: countOf("--rows", rows)! } : { chunks };
}

function countOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const count = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(count) && count > 0) return count;
  throw new SluiceError("USAGE", `${flag} ${text} is not a whole number above 0`);
}

async function formatOf({ format = "jsonl", compression }: ShardFlags): Promise<ResultFormat> {
  const [{ resultFormatNames }, { outputProblem, resultFormat }] = await Promise.all([
    import("../../data/formats/result-format.ts"),
    import("../../run/output/output-form.ts"),
  ]);
  assertOneOf("--format", format, resultFormatNames);
  if (compression !== undefined) {
    assertOneOf("--compression", compression, ["none", "gzip", "zstd", "brotli", "snappy"]);
  }
  const form = { path: "chunks", format, compression } as Parameters<typeof resultFormat>[0];
  const [key, problem] = outputProblem(form) ?? [];
  if (problem !== undefined) throw new SluiceError("USAGE", `--${key}: ${problem}`);
  return resultFormat(form);
}

function assertOneOf(flag: string, name: string, names: readonly string[]): void {
  if (names.includes(name)) return;
  const meant = nearest(name, names);
  const hint = `${meant ? `did you mean ${meant}? ` : ""}There are ${names.join(", ")}`;
  throw new SluiceError("USAGE", `${flag} ${name} is not known`, { hint });
}

function progressTo({ stderr, clock, isTerminal }: CliIo): (progress: ChunksProgress) => void {
  let lastMs = clock.monotonic();
  return (progress) => {
    if (!isTerminal || clock.monotonic() - lastMs < progressIntervalMs) return;
    lastMs = clock.monotonic();
    const text =
      "countedRows" in progress
        ? `${counted(progress.countedRows, "row")} counted`
        : `${grouped(progress.writtenChunks)} of ${counted(progress.chunks, "chunk")} written`;
    stderr.write(`${text}\n`);
  };
}

async function notesOf(found: WrittenChunks): Promise<string[]> {
  const { chunks, rows, smallestRows, largestRows, emptyChunks, workers, output } = found;
  if (!found.isNew) return [`these chunks are in ${output} already`];
  const sizes = smallestRows === largestRows ? `of ${rowsText(largestRows)}` : sizesText(found);
  const lines = [`${counted(rows, "row")} in ${counted(chunks, "chunk")} ${sizes}: ${output}`];
  if (found.leftOutResults > 0) {
    const { leftOutNotice } = await import("../../run/plan/notices.ts");
    lines.push(`note: ${leftOutNotice(found.leftOutResults)}`);
  }
  if (emptyChunks > 0) {
    lines.push(
      `note: ${counted(emptyChunks, "chunk")} without a row: there are fewer rows than chunks`,
    );
  }
  if (workers > chunks) {
    lines.push(
      `note: ${counted(workers - chunks, "worker")} with no chunk: there are fewer chunks`,
    );
  }
  return lines;
}

const rowsText = (rows: number) => counted(rows, "row");

function sizesText({ smallestRows, largestRows }: WrittenChunks): string {
  return `of ${grouped(smallestRows)} to ${rowsText(largestRows)}`;
}
