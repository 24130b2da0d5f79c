import { endingOf, type ResultFormat, resultFormatOf } from "../../data/formats/result-format.ts";
import { isPattern, patternProblem } from "./output-path.ts";

/** The form of results, as a job describes it. */
export interface OutputOptions {
  path: string;
  format?: ResultFormat["name"] | "openai-batch" | undefined;
  compression?: NonNullable<ResultFormat["compression" | "pages"]> | undefined;
  perInputFile?: boolean | undefined;
}

/** The format of results: the named one, or that of the path's extension. */
export function resultFormat(output: OutputOptions): ResultFormat {
  const named = output.format === "openai-batch" ? "jsonl" : output.format;
  // A path that ends in a slash is a directory, whatever its name.
  const told = resultFormatOf(output.path);
  const name = named ?? told?.name ?? "jsonl";
  const { compression = told?.compression ?? "none" } = output;
  if (name === "parquet" && compression !== "brotli" && told?.compression === undefined) {
    return { name, ...(output.compression && { pages: compression }) };
  }
  return compression === "none" || compression === "snappy" ? { name } : { name, compression };
}

/**
 * True if the attempts' own JSON lines are published: by task, or joined into one file. All other
 * results are made from those lines, which stay for later readers.
 */
export function publishesLines(output: OutputOptions, hasFiles: boolean): boolean {
  const { name, compression } = resultFormat(output);
  return name === "jsonl" && compression === undefined && !hasFiles;
}

/** The fault of a job's output, by key; undefined if it has none. */
export function outputProblem(output: OutputOptions): [key: string, problem: string] | undefined {
  const { path, format, compression, perInputFile } = output;
  const told = resultFormatOf(path);
  const wanted = resultFormat(output);
  const problem = patternProblem(path);
  if (problem !== undefined) return ["path", problem];
  if (told && endingOf(told) !== endingOf(wanted)) {
    const named = `${path.slice(path.lastIndexOf("/") + 1)} says ${formText(told)}`;
    const key = told.name === wanted.name ? "compression" : "format";
    return [key, `the path's ending is another: ${named}; leave one of them out`];
  }
  if (wanted.name === "parquet" && wanted.compression !== undefined) {
    return ["compression", "Parquet is compressed within the file: by snappy, gzip, zstd or none"];
  }
  if (wanted.name !== "parquet" && compression === "snappy") {
    return ["compression", "snappy is for Parquet: text is compressed by gzip, zstd or brotli"];
  }
  if (perInputFile && (told || isPattern(path))) {
    return ["perInputFile", "the path must be a directory then: each input gives its file a name"];
  }
  const isMany = perInputFile === true || isPattern(path);
  if (format === "openai-batch" && (isMany || (compression ?? "none") !== "none")) {
    return ["format", "openai-batch is one file of lines, or parts: neither compressed nor many"];
  }
  return undefined;
}

function formText({ name, compression }: ResultFormat): string {
  return compression ? `${name} in ${compression}` : name;
}
