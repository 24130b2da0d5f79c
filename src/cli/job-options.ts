import { readFile, stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { compressionOf } from "../data/decompressing.ts";
import { SluiceError } from "../foundation/errors.ts";
import { quotedWord } from "../foundation/shown-path.ts";
import { utf8Text } from "../foundation/utf8-text.ts";
import type { JobFile } from "../run/job/job-file.ts";
import { type JobKey, jobKeyNamed, jobKeys, type NamedKey } from "../run/job/keys.ts";
import type { JobFlags } from "../run/job/layers.ts";
import type { LoadedJob } from "../run/job/load.ts";
import { wrap } from "../terminal/table.ts";
import { type CliIo, commandPath } from "./io.ts";
import { collect } from "./run-call.ts";

/** Options that define a job, as commander passes them to an action. */
export type JobOptionValues = Readonly<Record<string, unknown>>;

/** Keys with a comma-separated list as text: repeating the flag extends the list. */
const joinedKeys = ["generation", "truncateFeatures"];

/** The list of one more flag of such a key. */
export const joined = (text: string, before?: string) =>
  before === undefined ? text : `${before},${text}`;

type JobPlace = Pick<CliIo, "environment" | "workingDirectory">;

/** The flags that the help lists one by one: those of usual keys, and those beside all keys. */
const listedFlags: readonly [flags: string, description: string, isRepeatable?: true][] = [
  ["--input <path>", "file or glob to read, local or remote, or - for stdin", true],
  ["--input-list <path>", "a list of files to read, one path a line", true],
  ["--model <name>", "fake, openai:NAME, or a catalog name or path of a GGUF model"],
  ["--base-url <url>", "address of the server, for --model openai:NAME"],
  ["--dataset <key=value,…>", "a dataset: name=…,path=…,type=…, instead of --input", true],
  ["--prompt <template>", "Jinja template over the row's fields"],
  ["--prompt-file <path>", "a file that holds the template, instead of --prompt"],
  ["--output <path>", "directory, or a file such as results.jsonl"],
  ["--limit <rows>", "take only the first rows"],
  ["--sample <rows>", "a random sample of this many rows"],
  ["--seed <number>", "seed of samples and answers; default: a random one, which is shown"],
  ["--untrusted", "a stranger's job: no programs, keys or variables; files of --allow.folders"],
  ["--env <name[=value]>", "environment of the workers; a name alone passes its value", true],
];

const listedNames: readonly string[] = listedFlags.map(([flags]) => /^--([\w-]+)/.exec(flags)![1]!);

/**
 * Declares all options of a job: the job file as argument or by `-c`, `--set`, the listed flags,
 * and one for each key of the schema. `--help` lists the latter with default and variable,
 * separately from the options. The job file is in the options of the action, however it was given.
 *
 * @param args of the command line: keys of the schema that are in none of them get no option,
 *   because declaring all takes 8 ms of a start. None = all.
 * @example
 * declareJobOptions(command, io).action(async (_, options) => {
 *   const { job } = await jobFromOptions(options, io);
 * });
 */
export function declareJobOptions(
  command: Command,
  io: JobPlace,
  args?: readonly string[],
): Command {
  command
    .argument("[job]", "the job file, YAML or JSON; default: SLUICE_CONFIG")
    .hook("preAction", async (_, called) => {
      const config = await jobFileOf(called, io);
      if (config !== undefined) called.setOptionValue("config", config);
    })
    .option("-c, --config <file>", "the job file")
    .option(
      "--set <key=value>",
      "set one key of the job, such as generation.temperature=0.3",
      collect,
    );
  for (const [flags, description, isRepeatable] of listedFlags) {
    if (isRepeatable) command.option(flags, description, collect);
    else command.option(flags, description);
  }
  for (const { path, isSwitch, otherNames } of args ? flagKeysIn(args) : flagKeys()) {
    for (const name of [path, ...otherNames]) {
      const option = command.createOption(`--${name} ${isSwitch ? "[value]" : "<value>"}`);
      if (joinedKeys.includes(path)) option.argParser(joined);
      command.addOption(option.hideHelp());
    }
  }
  const columns = () => command.createHelp().helpWidth ?? 100;
  return command.addHelpText("after", () => `\n${jobKeysHelp(columns())}`);
}

/**
 * The job from the options of `declareJobOptions` and the environment.
 *
 * @throws errors of `loadJob`.
 */
export async function jobFromOptions(
  options: JobOptionValues,
  io: JobPlace,
  translate?: (file: JobFile) => JobFile,
): Promise<LoadedJob> {
  const flags: Record<string, string | boolean | readonly string[]> = {};
  const ofKeys = Object.keys(options).filter((name) => flagKeyNamed(name) !== undefined);
  for (const name of new Set([...listedNames, ...ofKeys])) {
    const value = options[camelCase(name)];
    if (value !== undefined) flags[name] = value as string | boolean | readonly string[];
  }
  const { loadJob } = await import("../run/job/load.ts");
  if (options.promptFile !== undefined) flags["prompt-file"] = await promptOf(options, io);
  return loadJob({
    file: options.config as string | undefined,
    environment: io.environment,
    sets: (options.set as readonly string[] | undefined) ?? [],
    flags: flags as JobFlags,
    workingDirectory: io.workingDirectory,
    ...(translate && { translate }),
  });
}

/** The template in the file of `--prompt-file`, without its last line end. */
async function promptOf(
  { prompt, promptFile }: JobOptionValues,
  { workingDirectory }: Pick<CliIo, "workingDirectory">,
): Promise<string> {
  const file = String(promptFile);
  if (prompt !== undefined) {
    throw new SluiceError("USAGE", "--prompt and --prompt-file", { hint: "give one of them" });
  }
  const path = resolve(workingDirectory, file);
  const bytes = await readFile(path).catch((cause: NodeJS.ErrnoException) => {
    const { code } = cause;
    const detail = code === "ENOENT" ? "there is no such file" : `it cannot be read (${code})`;
    throw new SluiceError("USAGE", `--prompt-file: ${detail}`, { file, cause, hint: "check it" });
  });
  return utf8Text(bytes, "USAGE", file).replace(/\r?\n$/, "");
}

/** The job file of a command line, by argument or by `-c`. */
async function jobFileOf(command: Command, io: JobPlace): Promise<string | undefined> {
  const [argument] = command.args;
  const option = command.opts().config as string | undefined;
  if (argument !== undefined && option !== undefined) {
    throw new SluiceError("USAGE", `two job files: ${argument} and -c ${option}`, {
      hint: "give one of them",
    });
  }
  const file = argument ?? option;
  if (file !== undefined) await assertNoOtherFile(file, command, io);
  return file;
}

const rowEndings = /\.(jsonl|ndjson|csv|tsv|parquet|arrow|feather|ipc|txt)$/i;

/** People pass what they have at hand: a file of rows, or the folder of a run. */
async function assertNoOtherFile(file: string, command: Command, io: JobPlace): Promise<void> {
  const compression = compressionOf(file);
  const bare = compression ? file.slice(0, -compression.ending.length) : file;
  const name = commandPath(command).replace(/^sluice /, "");
  if (compression || rowEndings.test(bare)) {
    const hint =
      name === "run-batch"
        ? `sluice run-batch -i ${quotedWord(file)} -o responses.jsonl --model NAME`
        : `sluice ${name} --input ${quotedWord(file)} --model NAME --prompt TEMPLATE --output out; ` +
          "sluice init writes a job file to begin with";
    throw new SluiceError("USAGE", `${file} is a file of rows, not a job file`, { hint });
  }
  const found = await stat(resolve(io.workingDirectory, file)).catch(() => undefined);
  if (!found?.isDirectory()) return;
  throw new SluiceError("USAGE", `${file} is a folder, not a job file`, {
    hint: `if it holds a run, sluice resume ${quotedWord(file)} continues it`,
  });
}

/** Commander calls the value of `--base-url` `baseUrl`. */
function camelCase(flag: string): string {
  return flag.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Keys with a flag of their own: not below names and lists, and not those of a listed flag. */
function flagKeys(): readonly JobKey[] {
  return jobKeys().filter(
    ({ path, environment }) => environment !== undefined && !listedNames.includes(path),
  );
}

function flagKeyNamed(name: string): NamedKey | undefined {
  const key = jobKeyNamed(name);
  return key && !listedNames.includes(key.path) ? key : undefined;
}

/** The keys with flags in the arguments, under any of their names. */
function flagKeysIn(args: readonly string[]): readonly NamedKey[] {
  const names = args.flatMap((arg) => /^--([\w.]+)/.exec(arg)?.[1] ?? []);
  const found = names.flatMap((name) => flagKeyNamed(name) ?? []);
  return [...new Map(found.map((key) => [key.path, key])).values()];
}

/** Every key of the job, grouped, with type, default and variable: the addition of `--help`. */
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
