import type { Command } from "commander";
import type { JobFile } from "../run/job/job-file.ts";
import { type JobKey, jobKeys } from "../run/job/keys.ts";
import type { JobFlags } from "../run/job/layers.ts";
import type { LoadedJob } from "../run/job/load.ts";
import type { CliIo } from "./io.ts";
import { wrap } from "./table.ts";

/** Options that shape a job, as commander gives them to an action. */
export type JobOptionValues = Readonly<Record<string, unknown>>;

const collect = (text: string, sofar: readonly string[] = []) => [...sofar, text];

/** Keys whose text is a list with commas: a second flag goes on with it. */
const joinedKeys = ["generation", "truncateFeatures"];

/** Two texts of such a key as one. */
export const joined = (text: string, sofar?: string) =>
  sofar === undefined ? text : `${sofar},${text}`;

/** The flags that have a short name of their own, in the order of the help. */
const shortOptions: readonly [flags: string, description: string, isRepeatable?: true][] = [
  ["--input <path>", "what to read: a file or a glob, here or far away, or - for stdin", true],
  ["--input-list <path>", "a list of files to read, one path a line", true],
  ["--model <name>", "fake, openai:NAME, or a catalog name or path of a GGUF model"],
  ["--base-url <url>", "address of the server, for --model openai:NAME"],
  ["--dataset <key=value,…>", "a dataset: name=…,path=…,type=…, instead of --input", true],
  ["--prompt <template>", "Jinja template over the row's fields"],
  ["--output <path>", "directory, or a file such as results.jsonl"],
  ["--limit <rows>", "take only the first rows"],
  ["--sample <rows>", "take this many rows by chance"],
  ["--seed <number>", "what chance is drawn from; default: drawn, and shown"],
  ["--env <name[=value]>", "environment of the workers; a name alone passes its value", true],
];

const shortNames = shortOptions.map(([flags]) => /^--([\w-]+)/.exec(flags)![1]!);

/**
 * Declares every option that shapes a job: `-c`, `--set`, the short ones, and one for each key of
 * the schema. The latter are listed by `--help` with default and variable, not among the options.
 *
 * @example
 * declareJobOptions(command).action(async (options) => {
 *   const { job } = await jobFromOptions(options, io);
 * });
 */
export function declareJobOptions(command: Command): Command {
  command
    .option("-c, --config <file>", "job file, YAML or JSON; default: SLUICE_CONFIG")
    .option("--set <key=value>", "set one key of the job, as generation.temperature=0.3", collect);
  for (const [flags, description, isRepeatable] of shortOptions) {
    if (isRepeatable) command.option(flags, description, collect);
    else command.option(flags, description);
  }
  for (const { path, isSwitch, otherNames } of flagKeys()) {
    for (const name of [path, ...otherNames]) {
      const option = command.createOption(`--${name} ${isSwitch ? "[value]" : "<value>"}`);
      if (joinedKeys.includes(path)) option.argParser(joined);
      command.addOption(option.hideHelp());
    }
  }
  return command.addHelpText("after", () => `\n${jobKeysHelp(helpColumns(command))}`);
}

/**
 * The job that the options of `declareJobOptions` and the environment name.
 *
 * @throws what `loadJob` throws.
 */
export async function jobFromOptions(
  options: JobOptionValues,
  io: Pick<CliIo, "environment" | "workingDirectory">,
  translate?: (file: JobFile) => JobFile,
): Promise<LoadedJob> {
  const flags: Record<string, string | boolean | readonly string[]> = {};
  const dotted = flagKeys().flatMap(({ path, otherNames }) => [path, ...otherNames]);
  for (const name of [...shortNames, ...dotted]) {
    const value = options[camelCase(name)];
    if (value !== undefined) flags[name] = value as string | boolean | readonly string[];
  }
  const { loadJob } = await import("../run/job/load.ts");
  return loadJob({
    file: options.config as string | undefined,
    environment: io.environment,
    sets: (options.set as readonly string[] | undefined) ?? [],
    flags: flags as JobFlags,
    workingDirectory: io.workingDirectory,
    ...(translate && { translate }),
  });
}

/** Commander names the value of `--base-url` `baseUrl`. */
function camelCase(flag: string): string {
  return flag.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Keys that have a flag of their own: not those below names and lists, nor the short ones. */
function flagKeys(): readonly JobKey[] {
  const short = ["input", "dataset", "model", "prompt", "output"];
  const isShort = (path: string) => short.includes(path);
  return jobKeys().filter(
    ({ path, environment }) =>
      environment !== undefined && !isShort(path) && !["limit", "sample", "env"].includes(path),
  );
}

function helpColumns(command: Command): number {
  return command.createHelp().helpWidth ?? 100;
}

/** Every key of the job, grouped, with type, default and variable: what `--help` adds. */
export function jobKeysHelp(columns: number): string {
  const lines = [
    "Every key of the job file is an option as well (--generation.temperature 0.3), and a variable",
    "(SLUICE_GENERATION__TEMPERATURE=0.3). Job file < environment < options; --set and the job file",
    "reach the keys marked * below NAME and N.",
  ];
  let group = "";
  for (const key of jobKeys()) {
    const [first = ""] = key.path.split(".");
    if (first !== group) lines.push("");
    group = first;
    lines.push(...keyHelp(key, columns));
  }
  return lines.join("\n");
}

function keyHelp(key: JobKey, columns: number): string[] {
  const mark = key.environment === undefined ? "* " : "--";
  const facts = [
    key.description,
    key.default === undefined ? "" : `[default: ${JSON.stringify(key.default)}]`,
    ...key.otherNames.map((name) => `[or: ${name.split(".").at(-1)}]`),
    key.environment === undefined ? "" : `[env: ${key.environment}]`,
  ];
  const text = wrap(facts.filter(Boolean).join(" "), Math.max(40, columns - 6));
  return [`  ${mark}${key.path} <${key.type}>`, ...text.map((line) => `      ${line}`)];
}
