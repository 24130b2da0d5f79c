import { basename, extname, join } from "node:path";
import { z } from "zod";
import { limits } from "../../foundation/limits.ts";
import { datasetPromptFields } from "../../prompt/datasets/dataset-options.ts";

/** Axolotl's names for file formats that can be read. */
const datasetKinds = ["json", "text"] as const;
/** Paths without a file: Axolotl then takes the files from `data_files`. */
const loaderNames: readonly string[] = datasetKinds;

const datasetEntry = z.strictObject({
  name: z
    .string()
    .min(1)
    .optional()
    .describe("Its name in results; default: the file's name without its extension"),
  path: z
    .string()
    .refine((path) => path !== "-", { message: "must be a file: standard input is read as input" })
    .describe("A file or a glob; beside data_files their folder"),
  ...datasetPromptFields,
  data_files: z
    .union([z.string().transform((file) => [file]), z.array(z.string()).min(1)])
    .optional()
    .describe("Its files, from the folder `path`"),
  ds_type: z
    .enum(datasetKinds)
    .optional()
    .describe("Its format by Axolotl's name; json also means JSON Lines, by the file's extension"),
  format: z.enum(["jsonl", "json", "text"]).optional().describe("Default: by the file's extension"),
  split: z.literal("train").optional().describe("The only split of files; accepted without effect"),
  id: z.string().optional().describe("Field that identifies a row"),
  maxLineBytes: z
    .int()
    .min(1)
    .default(limits.maxLineBytes)
    .describe("Longest line; a longer one fails alone"),
});

/** An entry of `dataset` with its name. */
export type DatasetEntry = z.output<typeof datasetEntry> & { name: string };

/** The form of a text; the draft of a job has made a map of every valid one. */
const pairs = z.string().transform((_, context): DatasetEntry[] => {
  context.addIssue({ code: "custom", message: "write it as name=…,path=…,type=…, each key once" });
  return z.NEVER;
});

/** The schema of `dataset`: one or several, with distinct names. */
export const datasetOptions = z.union([
  pairs,
  datasetEntry.transform((entry) => [named(entry)]),
  z
    .array(datasetEntry.transform(named))
    .min(1)
    .superRefine((entries, context) => {
      for (const [at, { name }] of entries.entries()) {
        if (entries.findIndex((other) => other.name === name) === at) continue;
        const message = `there are two datasets ${name}: give each a name of its own`;
        context.addIssue({ code: "custom", path: [at, "name"], message });
      }
    }),
]);

function named(entry: z.output<typeof datasetEntry>): DatasetEntry {
  const { path, data_files: files } = entry;
  const file = loaderNames.includes(path) ? (files?.[0] ?? path) : path;
  return { ...entry, name: entry.name ?? basename(file, extname(file)) };
}

export interface DatasetInput {
  path: string;
  format?: "jsonl" | "json" | "text";
  id?: string;
  maxLineBytes: number;
}

/** The inputs of the datasets, each with the name of its dataset. */
export function datasetInputs(
  datasets: readonly DatasetEntry[],
): { dataset: string; input: DatasetInput }[] {
  return datasets.flatMap((entry) =>
    filesOf(entry).map((path) => ({ dataset: entry.name, input: inputOf(entry, path) })),
  );
}

/** The same dataset with its paths made absolute. */
export function withAbsoluteFiles(
  entry: DatasetEntry,
  absolute: (path: string) => string,
): DatasetEntry {
  const { path, data_files: files } = entry;
  if (!files || !loaderNames.includes(path)) return { ...entry, path: absolute(path) };
  return { ...entry, data_files: files.map(absolute) };
}

function filesOf({ path, data_files: files }: DatasetEntry): string[] {
  if (files === undefined) return [path];
  return loaderNames.includes(path) ? files : files.map((file) => join(path, file));
}

function inputOf({ format, ds_type: kind, id, maxLineBytes }: DatasetEntry, path: string) {
  const input: DatasetInput = { path, maxLineBytes };
  const given = format ?? (kind === "text" ? kind : undefined);
  if (given !== undefined) input.format = given;
  if (id !== undefined) input.id = id;
  return input;
}
