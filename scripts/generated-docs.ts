import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { commandDescription } from "../src/engines/command/description.ts";
import { compatibleSupport, openaiItselfSupport } from "../src/engines/openai/unsupported.ts";
import { openvinoDescription } from "../src/engines/openvino/description.ts";
import { fullSupport, type ParameterSupport } from "../src/engines/parameter-support.ts";
import { predictorDescription } from "../src/engines/predictor/description.ts";
import { transformersDescription } from "../src/engines/transformers/description.ts";
import { type ErrorCode, errorTable, exitCodes } from "../src/foundation/error-table.ts";
import { wireTable } from "../src/foundation/wire-table.ts";
import { jobJsonSchema } from "../src/run/job/json-schema.ts";
import { type JobKey, keysOf } from "../src/run/job/keys.ts";
import type { SchemaNode } from "../src/run/job/schema-tree.ts";
import { errorExplanations } from "./error-explanations.ts";
import { jobTypeFiles } from "./job-types.ts";

const notice = "<!-- written by npm run docs; edit scripts/, not this -->";
const keysBegin = "<!-- keys begin: written by npm run docs -->";
const keysEnd = "<!-- keys end -->";
const supportBegin = "<!-- support begin: written by npm run docs -->";
const supportEnd = "<!-- support end -->";

/** Root of the checkout, with a slash at its end. */
export const root = fileURLToPath(new URL("../", import.meta.url));

/** Every file that is written by a program, by its path from the root, as it should be. */
export function generatedFiles(): ReadonlyMap<string, string> {
  const schema = jobJsonSchema() as SchemaNode;
  const jobFile = readFileSync(`${root}docs/job-file.md`, "utf8");
  const engines = readFileSync(`${root}docs/engines.md`, "utf8");
  return new Map([
    ["schema/job.json", `${JSON.stringify(schema, null, 2)}\n`],
    ["docs/job-file.md", withKeys(jobFile, keysOf(schema))],
    ["docs/engines.md", between(engines, supportBegin, supportEnd, `${supportTable()}\n`)],
    ["docs/errors.md", errorsPage()],
    ...jobTypeFiles(schema),
  ]);
}

/** The text with the tables between the two marks replaced. */
export function withKeys(markdown: string, keys: readonly JobKey[]): string {
  return between(markdown, keysBegin, keysEnd, keyTables(keys));
}

function between(markdown: string, beginMark: string, endMark: string, text: string): string {
  const begin = markdown.indexOf(beginMark);
  const end = markdown.indexOf(endMark);
  if (begin < 0 || end < begin) throw new Error(`a page of docs/ lacks ${beginMark}`);
  const before = markdown.slice(0, begin + beginMark.length);
  return `${before}\n\n${text}\n${markdown.slice(end)}`;
}

/** Which generation parameters each engine takes. */
function supportTable(): string {
  const columns = {
    "`llama`": fullSupport,
    "`openvino`": openvinoDescription.support(undefined as never),
    "`openai`": compatibleSupport,
    "`openai` at `api.openai.com`": openaiItselfSupport,
    "`predictor`": predictorDescription.support(undefined as never),
    "`command`": commandDescription.support(undefined as never),
    "`transformers`": transformersDescription.support({ task: "translation" } as never),
    "`fake`": fullSupport,
  };
  const supports = Object.values(columns);
  const rows = (Object.keys(fullSupport) as (keyof ParameterSupport)[]).map((name) => {
    const cells = supports.map((support) => (support[name] === true ? "yes" : "refused"));
    return `| \`${name}\` | ${cells.join(" | ")} |`;
  });
  const rule = "---|".repeat(1 + supports.length);
  const head = `| \`generation\` | ${Object.keys(columns).join(" | ")} |\n|${rule}`;
  return [head, ...rows].join("\n");
}

function keyTables(keys: readonly JobKey[]): string {
  const firstOf = ({ path }: JobKey) => path.split(".")[0]!;
  const sizes = Map.groupBy(keys, firstOf);
  const groups = Map.groupBy(keys, (key) => {
    const first = firstOf(key);
    return sizes.get(first)!.length > 1 ? `\`${first}\`` : "Keys of one value";
  });
  const tables = [...groups].map(([group, members]) => {
    const rows = members.map(keyRow).join("\n");
    return `### ${group}\n\n| key | takes | default | kind | |\n|---|---|---|---|---|\n${rows}\n`;
  });
  return tables.join("\n");
}

function keyRow(key: JobKey): string {
  const { path, type, default: value, kind, description, otherNames } = key;
  const standard = value === undefined ? "" : `\`${JSON.stringify(value)}\``;
  const others = otherNames.map((name) => `, \`${name.split(".").at(-1)}\``).join("");
  const cells = [`\`${path}\`${others}`, type, standard, kind, description];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

const exitMeanings: Readonly<Record<keyof typeof exitCodes, string>> = {
  ok: "done; failed rows, if any, are within `maxFailedRows`",
  failedRows: "done or stopped, with more failed rows than allowed",
  usage: "the command line, the job or the environment is wrong; no row was sent",
  badInput: "the input is wrong as a whole",
  engineUnavailable: "the model or its server is not available",
  bug: "a fault of Sluice",
  storage: "the storage failed, is full, unsuitable or damaged",
  resumable: "not finished; the same command continues",
  interrupted: "stopped by Ctrl-C; the same command continues",
  terminated: "stopped by SIGTERM; the same command continues",
};

const sections: readonly [title: string, from: ErrorCode][] = [
  ["Command line and job", "USAGE"],
  ["Input", "INPUT_MISSING"],
  ["Rows", "JSON_INVALID"],
  ["Engines and models", "ENGINE_DIED"],
  ["Runs", "ROW_FAILED"],
  ["Storage", "NOT_FOUND"],
];

/** What errors are on the wire of `sluice serve`. */
function httpLines(): string[] {
  const kinds = Object.entries(wireTable).flatMap(([name, { openai }]) => {
    return openai ? [{ name, openai }] : [];
  });
  const groups = Map.groupBy(kinds, ({ openai }) => JSON.stringify(openai));
  const rows = [...groups.values()]
    .map((members) => ({ ...members[0]!, names: members.map(({ name }) => `\`${name}\``) }))
    .sort(({ openai: [one] }, { openai: [other] }) => one - other)
    .map(({ openai: [status, type, code], names }) => {
      const shown = code === undefined ? "" : `\`${code}\``;
      return `| ${status} | \`${type}\` | ${shown} | ${names.join(", ")} |`;
    });
  return [
    "## Errors over HTTP",
    "",
    "`sluice serve` answers OpenAI's calls with `{error: {message, type, param, code}}`. `param` is the",
    "field that the error names. 429 and 503 have `Retry-After`. All other errors have the type",
    "`server_error`: status 503 if they end an engine (see below), else 500. What a server behind",
    "the model said of a request has [its own words](serve.md#servers-behind-it). On TorchServe's",
    "wire, errors have the statuses and types of [TorchServe](torchserve.md).",
    "",
    "| status | `type` | `code` | error |",
    "|---|---|---|---|",
    ...rows,
  ];
}

function errorsPage(): string {
  const lines = [
    "# Errors and exit codes",
    "",
    notice,
    "",
    "Every fault that Sluice names has a code, which stays the same from version to version and is",
    "never given to another fault. A command that fails prints `error CODE: message` and a hint on",
    "stderr. A row that fails becomes a dead letter with the same code.",
    "",
    "## Exit codes",
    "",
    "The same for `sluice run` and for workers. A sealed run that is called again repeats its code.",
    "",
    "| code | meaning |",
    "|---|---|",
    ...Object.entries(exitCodes).map(
      ([name, code]) => `| ${code} | ${exitMeanings[name as keyof typeof exitCodes]} |`,
    ),
  ];
  lines.push("", ...httpLines());
  for (const code of Object.keys(errorTable) as ErrorCode[]) {
    const section = sections.find(([, first]) => first === code);
    if (section) lines.push("", `## ${section[0]}`);
    lines.push("", ...errorEntry(code));
  }
  return `${lines.join("\n")}\n`;
}

function errorEntry(code: ErrorCode): string[] {
  const { message, hint, scope, retryable, exitCode } = errorTable[code];
  const ends = {
    row: retryable ? "its row, once all its tries have failed" : "its row",
    run: `the command, with exit code ${exitCode}`,
    engine: `the engine, which is started again; at last the command, with exit code ${exitCode}`,
  }[scope];
  return [
    `### \`${code}\``,
    "",
    `**${message}.** ${errorExplanations[code]}`,
    "",
    `What to do: ${hint}. Ends: ${ends}.`,
  ];
}
